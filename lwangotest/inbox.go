package lwangotest

import (
	"errors"
	"testing"
	"time"
)

// patience is how long a test waits for a message or an event.
const patience = 10 * time.Second

// inbox is what a server sends to a test, one by one, until an M that is the end.
type inbox[M interface{ end() error }] struct {
	t      testing.TB
	come   chan M // closed when nothing more can come
	last   M      // the end, once it was taken
	closed M      // the end if the test has closed come
}

// newInbox returns an inbox of t's, with the end that it has if the test closes it.
func newInbox[M interface{ end() error }](t testing.TB, closed M) inbox[M] {
	return inbox[M]{t: t, come: make(chan M, 256), closed: closed}
}

// next returns the next M, and the end again and again. want says what the test waits for.
func (in *inbox[M]) next(patience time.Duration, want string) M {
	in.t.Helper()
	if in.last.end() != nil {
		return in.last
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case m, ok := <-in.come:
		if !ok {
			m = in.closed
		}
		if m.end() != nil {
			in.last = m
		}
		return m
	case <-limit.C:
		in.t.Fatalf("nothing has come within %v, want %s", patience, want)
		return in.closed
	}
}

// errClosed is the end that the test itself has made.
var errClosed = errors.New("closed by the test")
