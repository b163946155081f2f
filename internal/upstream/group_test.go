package upstream_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// alone makes a route with a pool of its own.
func alone(t *testing.T, addresses []string, change func(*upstream.Settings)) *route {
	t.Helper()
	return newRoute(t, new(upstream.Pool), addresses, change)
}

func TestTurns(t *testing.T) {
	_, a := crowd(t, 3)
	if got := alone(t, a, nil).texts(6); got != "012012" {
		t.Error(got)
	}
	a[1] += " weight=2"
	if got := alone(t, a, nil).texts(8); got != "10211021" {
		t.Error("weights: ", got)
	}
	a[0] += " backup"
	if got := alone(t, a, nil).texts(6); strings.Contains(got, "0") {
		t.Error("backup: ", got)
	}
}

func TestLeastConnections(t *testing.T) {
	slow, goOn := stepwise(t)
	_, a := crowd(t, 1)
	r := alone(t, append([]string{slow.address}, a...),
		func(s *upstream.Settings) { s.Balance = upstream.LeastConn })
	done := make(chan got)
	r.ask("x", false, done)
	slow.requests(t, 1)
	if got := r.texts(5); got != "00000" {
		t.Error(got)
	}
	goOn <- true
	answered(t, done)
}

// TestLeastConnectionsByWeight: connections in use are divided as the weights are.
func TestLeastConnectionsByWeight(t *testing.T) {
	one, goOne := stepwise(t)
	three, goThree := stepwise(t)
	r := alone(t, []string{one.address, three.address + " weight=3"}, func(s *upstream.Settings) {
		s.Balance = upstream.LeastConn
	})
	done := make(chan got)
	for i := range 8 {
		r.ask(fmt.Sprint(i), false, done)
		wait.Until(t, "it is asked",
			func() bool { return len(one.seen())+len(three.seen()) == i+1 })
	}
	if n, m := len(one.seen()), len(three.seen()); n != 2 || m != 6 {
		t.Errorf("%d and %d", n, m)
	}
	// Two are free at the one with less weight: it is its turn then.
	for range 2 {
		goOne <- true
		<-done
	}
	for i := range 2 {
		r.ask(fmt.Sprint(i), false, done)
		one.requests(t, 2+i+1)
	}
	for range 2 {
		goOne <- true
		<-done
	}
	for range 6 {
		goThree <- true
		<-done
	}
}

// TestOthersAreTried: of several upstreams those that cannot be reached are passed over, and not
// asked again for a while.
func TestOthersAreTried(t *testing.T) {
	all, a := crowd(t, 2)
	a = []string{nobody(t, "unix"), a[0], nobody(t, "tcp"), a[1] + " backup"}
	r := alone(t, a, nil)
	if got := r.texts(6); got != "000000" {
		t.Error(got)
	}
	names := slices.Sorted(slices.Values(r.missed()))
	if !slices.Equal(names, []string{a[2], a[0]}) {
		t.Errorf("not reached: %q", names) // once each
	}
	all[0].stop()
	if got := r.texts(3); got != "111" {
		t.Error("backup: ", got)
	}
	all[1].stop()
	if g := r.get("x"); g.err == nil || upstream.Busy(g.err) {
		t.Error("nobody: ", g)
	}
	startAt(t, all[0].address, says("again"))
	if g := r.get("x"); g.text != "again" {
		t.Error("back again: ", g)
	}
}

// TestQueue: there are no more connections than MaxConns, and slots go to the requests that wait
// in the order in which they came.
func TestQueue(t *testing.T) {
	for _, conns := range []int{1, 3} {
		next := make(chan bool)
		var now, most atomic.Int32
		s := start(t, func(int, string) string {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-next
			now.Add(-1)
			return "hello"
		})
		pool, r := limited(t, s, 0, conns)
		done := make(chan got)
		for i := range 10 {
			r[0].ask(fmt.Sprint(i), false, done)
			if i < conns {
				s.requests(t, i+1)
			} else {
				wait.Until(t, "it waits", func() bool { return pool.Waiting() == i+1-conns })
			}
		}
		for range 10 {
			next <- true
			answered(t, done)
		}
		if n := int(most.Load()); n != conns {
			t.Errorf("%d connections, allowed are %d", n, conns)
		}
		if order := s.seen(); len(order) != 10 || conns == 1 && !slices.IsSorted(order) {
			t.Error(order)
		}
	}
}

func TestQueueTimesOut(t *testing.T) {
	s, goOn := stepwise(t)
	r := alone(t, []string{s.address}, func(s *upstream.Settings) {
		s.MaxConns, s.QueueTimeout = 1, 50*time.Millisecond
	})
	done := make(chan got)
	r.ask("x", false, done)
	s.requests(t, 1)
	if g := r.get("y"); !upstream.Busy(g.err) {
		t.Error(g)
	}
	goOn <- true
	answered(t, done)
}

// TestBurst: of more requests than there are slots, those in the queue wait for longer than
// connecting may take, and all are answered.
func TestBurst(t *testing.T) {
	const many, conns, connect = 64, 2, wait.Patience
	s, goOn := stepwise(t)
	r := alone(t, []string{s.address}, func(s *upstream.Settings) {
		s.MaxConns, s.ConnectTimeout, s.QueueTimeout = conns, connect, 10*connect
	})
	done := make(chan got)
	for range many {
		r.ask("x", false, done)
	}
	s.requests(t, conns)
	r.loops.Skip(2 * connect)
	for range many {
		goOn <- true
		answered(t, done)
	}
}

// TestQueueIsLeft: a thread that is killed while it waits for a slot leaves the queue, and holds
// up none of those behind it.
func TestQueueIsLeft(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := limited(t, s, 0, 1, 1)
	done := make(chan got)
	r[0].ask("0", false, done)
	s.requests(t, 1)
	r[1].ask("1", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 1 })
	r[0].ask("2", false, done)
	wait.Until(t, "it waits, too", func() bool { return pool.Waiting() == 2 })
	r[1].loops.All[0].Stop(0)
	wait.Until(t, "one has left", func() bool { return pool.Waiting() == 1 })
	for range 2 {
		goOn <- true
		answered(t, done)
	}
	if got := s.seen(); !slices.Equal(got, []string{"0", "2"}) {
		t.Error(got)
	}
}
