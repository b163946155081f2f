package lwangotest

import (
	"testing"

	"github.com/lwango/lwango/internal/test/leak"
)

// Main is for TestMain. It runs the tests, and fails if they leave goroutines or descriptors, for
// which it waits some seconds. It ends the process.
func Main(m *testing.M) { leak.Main(m) }
