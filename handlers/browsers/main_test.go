package browsers_test

import (
	"testing"

	"github.com/lwango/lwango/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
