package upstream_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestAge: a connection serves only so many requests, and is used only for so long.
func TestAge(t *testing.T) {
	s := numbers(t)
	_, r := keeping(t, s, 1, func(s *upstream.Settings) { s.KeepaliveRequests = 3 })
	got := ""
	for range 7 {
		got += r[0].get("x").text
	}
	if got != "1112223" {
		t.Error("by requests: ", got)
	}
	s.stop()

	s = numbers(t)
	pool, r := keeping(t, s, 1, func(s *upstream.Settings) {
		s.KeepaliveTime, s.IdleTimeout = 20*time.Millisecond, wait.Patience
	})
	begun := time.Now()
	wait.Until(t, "another one is made", func() bool { return r[0].get("x").text == "2" })
	if d := time.Since(begun); d < 20*time.Millisecond {
		t.Error("after ", d)
	}
	wait.Until(t, "it is closed, though it may be idle for longer",
		func() bool { return pool.Idle() == 0 })
	s.closed(t)
}

// TestIdleAsLongAsTheUpstreamSays: what it says of its own limit counts where that is shorter.
func TestIdleAsLongAsTheUpstreamSays(t *testing.T) {
	s := numbers(t)
	pool, r := keeping(t, s, 1, func(s *upstream.Settings) { s.IdleTimeout = wait.Patience })
	done := make(chan bool)
	r[0].loops.Go(0, func(th *loop.Thread) {
		defer close(done)
		l := r[0].Lease()
		c, _, err := l.Connect(th, upstream.Reused)
		if err != nil {
			t.Error(err)
			return
		}
		l.Keep(c, 20*time.Millisecond)
	})
	<-done
	wait.Until(t, "it is closed", func() bool { return pool.Idle() == 0 })
	s.closed(t)
}

// TestJustUsed: a request that must not be sent twice gets a connection that was used just now, and
// otherwise a new one, for which the others stay.
func TestJustUsed(t *testing.T) {
	t.Parallel()
	s := numbers(t)
	pool, r := keeping(t, s, 2, func(s *upstream.Settings) { s.IdleTimeout = wait.Patience })
	connect := func(i int, want upstream.Want) (reused bool) {
		done := make(chan bool)
		r[i].loops.Go(0, func(th *loop.Thread) {
			defer close(done)
			l := r[i].Lease()
			c, k, err := l.Connect(th, want)
			if err != nil {
				t.Error(err)
				return
			}
			reused = k
			l.Keep(c, 0)
		})
		<-done
		return reused
	}
	connect(0, upstream.Reused)
	for i := range 2 { // another loop gets it, too
		pool.Idled(-time.Minute) // however long the machine takes
		if !connect(i, upstream.JustUsed) {
			t.Error("a new one, at once")
		}
	}
	pool.Idled(time.Second)
	if connect(0, upstream.JustUsed) {
		t.Error("an idle one, after a second")
	}
	pool.Idled(-time.Minute)
	if !connect(1, upstream.JustUsed) { // the older one made room for it
		t.Error("a new one, at once")
	}
	if n := pool.Idle(); n != 1 {
		t.Error(n, " are idle")
	}
	wait.Until(t, "both are accepted", func() bool { // no request has shown that they are
		_, accepted := s.connections()
		return accepted == 2
	})
	s.each(func(c io.WriteCloser) { c.Close() })
	wait.Until(t, "what the upstream has closed is closed", func() bool { return pool.Idle() == 0 })
}

// TestWokenWhenEligible: a request that waits for the only address that works gets one at another
// as soon as that is to be tried again.
func TestWokenWhenEligible(t *testing.T) {
	defer upstream.AvoidFor(50 * time.Millisecond)()
	busy, goOn := stepwise(t)
	address := nobody(t, "unix")
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{address, busy.address}, func(s *upstream.Settings) {
		s.MaxConns = 1
	})
	done, waits := make(chan got, 1), make(chan got, 1)
	r.ask("0", false, done) // finds that the first does not work
	busy.requests(t, 1)
	startAt(t, address, func(conn int, _ string) string { return fmt.Sprint("again ", conn) })
	r.ask("1", false, waits)
	if g := <-waits; g.text != "again 1" {
		t.Error(g)
	}
	goOn <- true
	answered(t, done)
}

// TestBurstShrinks: what a burst has left is closed when its minute is over, though all connections
// take turns.
func TestBurstShrinks(t *testing.T) {
	const burst = 4
	var arrived sync.WaitGroup
	arrived.Add(burst)
	s := start(t, func(conn int, line string) string {
		if line == "burst" {
			arrived.Done()
			arrived.Wait()
		}
		return fmt.Sprint(conn)
	})
	pool, r := keeping(t, s, 1, func(s *upstream.Settings) {
		s.MaxIdle, s.IdleTimeout = 1024, wait.Patience
	})
	done := make(chan got)
	for range burst {
		r[0].ask("burst", false, done)
	}
	for range burst {
		if g := <-done; g.err != nil {
			t.Fatal(g.err)
		}
	}
	for _, want := range []int{burst, burst, 1} {
		for range 2 * burst {
			r[0].get("x")
		}
		if n := pool.Idle(); n != want {
			t.Errorf("%d are idle, want %d", n, want)
		}
		pool.Later(31 * time.Second)
	}
	s.each(func(c io.WriteCloser) { c.Close() })
	s.closed(t)
	wait.Until(t, "the last one is closed", func() bool { return pool.Idle() == 0 })
}
