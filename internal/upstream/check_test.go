package upstream_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// TestQueueWhenAllAreOut: requests wait for the only address that works, as the one that has room
// was taken out. When the checks take that address out as well, requests go to all of them again:
// so do those that wait.
func TestQueueWhenAllAreOut(t *testing.T) {
	busy, goOn := stepwise(t)
	free := start(t, says("free"))
	var down sync.Map // names
	var outs atomic.Int32
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{busy.address, free.address}, func(s *upstream.Settings) {
		s.MaxConns = 1
		s.Check = &upstream.Check{Interval: time.Millisecond, Timeout: wait.Patience, Rises: 1, Falls: 1,
			Run: func(_ net.Conn, name string) error {
				if _, is := down.Load(name); is {
					return errors.New("down")
				}
				return nil
			},
			Changed: func(string, bool, error) { outs.Add(1) }}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { r.Watch(ctx) })
	defer watching.Wait()
	defer cancel()

	down.Store(free.address, true)
	wait.Until(t, "one is out", func() bool { return outs.Load() == 1 })
	done := make(chan got, 3)
	r.ask("0", false, done)
	busy.requests(t, 1)
	r.ask("1", false, done)
	r.ask("2", false, done)
	wait.Until(t, "two wait", func() bool { return pool.Waiting() == 4 })
	down.Store(busy.address, true)
	for range 2 {
		if g := <-done; g.text != "free" {
			t.Error(g)
		}
	}
	goOn <- true
	answered(t, done)
}
