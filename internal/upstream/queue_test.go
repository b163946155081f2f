package upstream_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// client is the task of a thread that works for a client.
type client struct {
	addr netip.Addr
	run  func(th *loop.Thread)
}

// Client is an optional method of a loop.Task.
func (c *client) Client() netip.Addr { return c.addr }

// Run implements loop.Task.
func (c *client) Run(th *loop.Thread) coro.Code { c.run(th); return coro.Abort }

// ClientGone implements loop.Task.
func (c *client) ClientGone() {}

// Ended implements loop.Task.
func (c *client) Ended() {}

// askFor sends a request of a client, whose end goes to done.
func (r *route) askFor(from, line string, done chan<- got) {
	l := r.loops.All[0]
	_ = l.Post(func() {
		l.Layer().Start(&client{netip.MustParseAddr(from), func(th *loop.Thread) {
			r.tell(th, line, false, done)
		}})
	})
}

// TestQueueInTurn: a client with a crowd of requests delays another one's by one of them, even if
// each comes from another /64 of its client network.
func TestQueueInTurn(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 0, 1)
	const crowd = 20
	done := make(chan got, crowd+3)
	for i := range crowd {
		r[0].askFor(fmt.Sprintf("2001:db8:1:%x::1", i), fmt.Sprint("crowd", i), done)
	}
	s.requests(t, 1)
	wait.Until(t, "the others wait", func() bool { return pool.Waiting() == crowd-1 })
	for i, from := range []string{"192.0.2.1", "2001:db8:2::1", "192.0.2.1"} {
		r[0].askFor(from, from, done)
		wait.Until(t, "it waits, too", func() bool { return pool.Waiting() == crowd+i })
	}
	for range crowd + 3 {
		goOn <- true
		answered(t, done)
	}
	// One of the crowd had its slot, and the next its turn, before the others came.
	want := []string{"crowd", "crowd", "192.0.2.1", "2001:db8:2::1", "crowd", "192.0.2.1", "crowd"}
	for i, line := range s.seen()[:len(want)] {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("%d: %s, want %s: %q", i, line, want[i], s.seen())
		}
	}
}

// TestCrowdInQueue: where the queue is full, the newest request of the client that has most gives
// way to one of another client, and to none of its own.
func TestCrowdInQueue(t *testing.T) {
	s, goOn := stepwise(t)
	pool := new(upstream.Pool)
	const most = 8
	r := newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) {
		s.MaxConns, s.MaxQueue = 1, most
	})
	crowd, others := make(chan got, most+3), make(chan got, 2)
	// refused waits for the one that gives way.
	refused := func(what string) {
		t.Helper()
		select {
		case g := <-crowd:
			if !upstream.Busy(g.err) {
				t.Fatalf("%s: %v", what, g)
			}
		case g := <-others:
			t.Fatalf("another client's request is refused, not %s: %v", what, g)
		}
	}
	r.askFor("192.0.2.1", "crowd", crowd)
	s.requests(t, 1)
	for i := range most {
		r.askFor("192.0.2.1", fmt.Sprint("crowd", i), crowd)
		wait.Until(t, "it waits", func() bool { return pool.Waiting() == i+1 })
	}
	r.askFor("192.0.2.1", "crowd-too-many", crowd)
	refused("the crowd's own")
	for _, from := range []string{"192.0.2.2", "192.0.2.3"} {
		r.askFor(from, from, others)
		refused("one of the crowd")
	}
	if n := pool.Waiting(); n != most {
		t.Error(n, " wait")
	}
	for range most + 1 {
		goOn <- true
	}
	for range 2 {
		answered(t, others)
	}
	for range most - 1 {
		answered(t, crowd)
	}
	seen := s.seen()
	if i := slices.Index(seen, "192.0.2.3"); i < 0 || i > 3 {
		t.Errorf("%q", seen)
	}
	for _, line := range []string{"crowd6", "crowd7", "crowd-too-many"} {
		if slices.Contains(seen, line) {
			t.Error(line, " was not the newest")
		}
	}
	if n := pool.Active(); n != 0 {
		t.Error(n, " slots are taken")
	}
}

// TestKilledInQueue: requests that are killed together lose no slot and no connection, also when
// one gets them from a request that was killed before it.
func TestKilledInQueue(t *testing.T) {
	s := start(t, says("hello"))
	pool, r := limited(t, s, 2, 2)
	const crowd = 30
	l := r[0].loops.All[0]
	for i := range byte(crowd) {
		_ = l.Post(func() {
			l.Layer().Start(&client{netip.AddrFrom4([4]byte{192, 0, 2, i % 3}), func(th *loop.Thread) {
				lease := r[0].Lease()
				defer lease.Release()
				s, _, err := lease.Connect(th, upstream.Reused)
				if err != nil {
					t.Error(err)
					return
				}
				defer lease.Keep(s, 0)
				_ = th.Sleep(time.Hour)
			}})
		})
	}
	wait.Until(t, "all but two wait", func() bool { return pool.Waiting() == crowd-2 })
	wait.Until(t, "two are connected", func() bool { _, n := s.connections(); return n == 2 })
	r[0].loops.Stop(0)
	if active, waiting := pool.Active(), pool.Waiting(); active != 0 || waiting != 0 {
		t.Errorf("%d slots are taken, %d requests wait", active, waiting)
	}
	if n := pool.Idle(); n != 2 {
		t.Fatalf("%d connections are idle, want both", n)
	}
	s.closed(t)
}
