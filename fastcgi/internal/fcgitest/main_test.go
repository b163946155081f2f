package fcgitest_test

import (
	"testing"

	"github.com/lwango/lwango/internal/test/leak"
)

func TestMain(m *testing.M) {
	leak.Parallel(6) // they wait more than they compute
	leak.Main(m)
}
