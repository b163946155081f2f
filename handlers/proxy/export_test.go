package proxy

import (
	"testing"
	"time"
)

// SetExpectFor sets for how long a body is held back, until the test ends. It comes before the
// server.
func SetExpectFor(t *testing.T, d time.Duration) {
	old := expectFor
	expectFor = d
	t.Cleanup(func() { expectFor = old })
}
