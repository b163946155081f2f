package upstream_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// limited makes routes to one service, each with its own limit to the connections, as those of a
// process have before and after a reload.
func limited(t *testing.T, s *service, maxIdle int, limits ...int) (pool *upstream.Pool,
	all []*route) {
	pool = new(upstream.Pool)
	s.pool = pool
	for _, n := range limits {
		all = append(all, newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) {
			s.MaxConns, s.MaxIdle = n, maxIdle
		}))
	}
	return pool, all
}

// answered waits for a request's answer.
func answered(t *testing.T, done <-chan got) {
	t.Helper()
	if g := <-done; g.text != "hello" {
		t.Error(g)
	}
}

// TestRoomWithoutQueue: a route that has no queue needs none where it has room, though the requests
// of another one wait.
func TestRoomWithoutQueue(t *testing.T) {
	s, goOn := stepwise(t)
	pool := new(upstream.Pool)
	route := func(conns, queue int) *route {
		return newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) {
			s.MaxConns, s.MaxQueue = conns, queue
		})
	}
	low, high := route(1, 1), route(2, 0)
	done := make(chan got)
	low.ask("0", false, done)
	s.requests(t, 1)
	low.ask("1", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 1 })
	high.ask("2", false, done)
	s.requests(t, 2)
	if g := high.get("3"); !upstream.Busy(g.err) {
		t.Error("beyond the limit, without a queue: ", g)
	}
	for range 3 {
		goOn <- true
		answered(t, done)
	}
}

// TestOneCap: what several routes have with one address is counted together, and requests that wait
// are served in the order in which they came, whichever route they come by.
func TestOneCap(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 0, 1, 1, 1)
	done := make(chan got)
	const n = 7
	for i := range n {
		r[i%len(r)].ask(fmt.Sprint(i), false, done)
		// The next one comes when this one has its slot, or is in the queue.
		if i == 0 {
			s.requests(t, 1)
		} else {
			wait.Until(t, "it waits", func() bool { return pool.Waiting() == i })
		}
	}
	for i := range n {
		s.requests(t, i+1)
		goOn <- true
		answered(t, done)
	}
	if order := s.seen(); !slices.IsSorted(order) {
		t.Error(order)
	}
}

// TestUnequalCaps: each route heeds its own limit, and a request that waits for that holds up none
// with a higher one.
func TestUnequalCaps(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 0, 1, 2)
	low, high := r[0], r[1]
	done := make(chan got)
	high.ask("0", false, done)
	s.requests(t, 1)
	low.ask("1", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 1 })
	high.ask("2", false, done)
	s.requests(t, 2) // past the one that waits
	high.ask("3", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 2 })
	goOn <- true
	answered(t, done)
	s.requests(t, 3) // there is room for one by the limit of the later one alone
	if n := pool.Waiting(); n != 1 {
		t.Error(n, " wait")
	}
	goOn <- true
	goOn <- true
	answered(t, done)
	answered(t, done)
	s.requests(t, 4)
	goOn <- true
	answered(t, done)
	if last := s.seen()[3]; last != "1" {
		t.Error(last)
	}
}

// TestIdleForAll: a connection that one route has kept is another's, and there are no more of them
// for more routes.
func TestIdleForAll(t *testing.T) {
	s := start(t, says("hello"))
	_, r := limited(t, s, 2, 0, 0, 0)
	for i := range 9 {
		if g := r[i%len(r)].get("x"); g.text != "hello" {
			t.Error(g)
		}
	}
	if _, n := s.connections(); n != 1 {
		t.Error(n, " connections")
	}
	s.closed(t)

	// As many at once, and MaxIdle of them stay idle.
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 2, 0, 0, 0)
	done := make(chan got)
	for i := range 6 {
		r[i%len(r)].ask("x", false, done)
	}
	s.requests(t, 6)
	for range 6 {
		goOn <- true
		answered(t, done)
	}
	if n := pool.Idle(); n > 2 {
		t.Error(n, " idle connections")
	}
	s.closed(t)
}

// TestIdleMakeRoom: connections that are idle count for MaxConns, and are closed where their slot
// is wanted.
func TestIdleMakeRoom(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 2, 2, 1)
	done := make(chan got)
	for i := range 2 {
		r[0].ask(fmt.Sprint(i), false, done)
		s.requests(t, i+1)
	}
	for range 2 {
		goOn <- true
		answered(t, done)
	}
	// requests that must not have an idle one, of a route that may have one in all
	for i := range 3 {
		r[1].ask("x", true, done)
		s.requests(t, 2+i+1)
		if n := pool.Idle(); n != 0 {
			t.Error(n, " are idle beside the one in use")
		}
		goOn <- true
		answered(t, done)
	}
	if _, n := s.connections(); n != 5 {
		t.Error(n, " connections")
	}
	s.closed(t)
}

// TestIdleOldest: of several that are idle the oldest is taken, as the upstream may be at work
// behind its latest answer.
func TestIdleOldest(t *testing.T) {
	goOn := make(chan bool)
	s := start(t, func(conn int, line string) string {
		if line == "wait" {
			<-goOn
		}
		return fmt.Sprint(conn)
	})
	_, r := limited(t, s, 2, 0)
	done := make(chan got)
	r[0].ask("wait", false, done)
	s.requests(t, 1)
	r[0].get("x")
	goOn <- true
	<-done
	if got := r[0].texts(4); got != "2121" {
		t.Error(got)
	}
	s.closed(t)
}
