package upstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestDialIsLeft: a thread that is canceled or killed while it connects gives its slot back.
func TestDialIsLeft(t *testing.T) {
	address := startFull(t)
	pool := new(upstream.Pool)
	route := func(connect time.Duration) *route {
		return newRoute(t, pool, []string{address}, func(s *upstream.Settings) {
			s.MaxConns, s.ConnectTimeout, s.QueueTimeout = 1, connect, 5*time.Second
		})
	}
	connecting, next := route(time.Minute), route(20*time.Millisecond)

	canceled := make(chan error, 1)
	var cancel loop.Promise[int]
	connecting.loops.Go(0, func(th *loop.Thread) {
		th.Go(func(th *loop.Thread) error {
			_, err := connecting.request(th, "x", false)
			canceled <- err
			return nil
		})
		_, _ = cancel.Await(th, -1)
		th.Cancel()
	})
	wait.Until(t, "it connects", func() bool { return pool.Active() == 1 })
	cancel.Resolve(0)
	if err := <-canceled; !errors.Is(err, loop.ErrCanceled) {
		t.Error("canceled: ", err)
	}
	if g := next.get("x"); g.err == nil ||
		!strings.Contains(g.err.Error(), "accepts no connection") {
		t.Error("behind one that was canceled: ", g)
	}

	connecting.ask("x", false, make(chan got))
	wait.Until(t, "it connects", func() bool { return pool.Active() == 1 })
	connecting.loops.Stop(0)
	if g := next.get("x"); g.err == nil ||
		!strings.Contains(g.err.Error(), "accepts no connection") {
		t.Error("behind one that was killed: ", g)
	}
}
