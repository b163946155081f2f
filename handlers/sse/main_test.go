package sse_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/leak"
)

func TestMain(m *testing.M) {
	sse.SetLastWords(3 * time.Second) // a busy machine may stand still for long
	leak.Main(m)
}
