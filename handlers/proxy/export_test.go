package proxy

import (
	"testing"
	"time"
)

// SetCloseWait sets for how long a stop waits for the ends of WebSockets, until the test ends. It
// comes before the server.
func SetCloseWait(t *testing.T, d time.Duration) {
	old := closeWait
	closeWait = d
	t.Cleanup(func() { closeWait = old })
}

// SetExpectFor sets for how long a body is held back, until the test ends. It comes before the
// server.
func SetExpectFor(t *testing.T, d time.Duration) {
	old := expectFor
	expectFor = d
	t.Cleanup(func() { expectFor = old })
}
