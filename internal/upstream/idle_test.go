package upstream_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// keeping makes routes that keep connections, each with a loop of its own.
func keeping(t *testing.T, s *service, routes int, change func(*upstream.Settings)) (*upstream.Pool,
	[]*route) {
	pool := new(upstream.Pool)
	s.pool = pool
	var all []*route
	for range routes {
		all = append(all, newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) {
			s.MaxIdle, s.IdleTimeout = 2, 3*time.Second
			if change != nil {
				change(s)
			}
		}))
	}
	return pool, all
}

// numbers is a service that answers with the number of the connection.
func numbers(t *testing.T) *service {
	return start(t, func(conn int, _ string) string { return fmt.Sprint(conn) })
}

// TestNotIdleWhenFewAreLeft: a connection whose descriptor is one of the process's last is closed
// and does not wait for another request.
func TestNotIdleWhenFewAreLeft(t *testing.T) {
	upstream.SetBudget(t, openfiles.New(4)) // all numbers are among the last
	s := numbers(t)
	_, r := keeping(t, s, 1, nil)
	if a, b := r[0].get("x"), r[0].get("x"); a.text != "1" || b.text != "2" {
		t.Errorf("the connections are %v and %v", a, b)
	}
}

// TestIdleIsFree: requests on a loop that keeps the connection cost no epoll_ctl.
func TestIdleIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	s := numbers(t)
	_, r := keeping(t, s, 1, nil)
	r[0].get("x")
	ask := func() (stats loop.Stats) {
		loops.On(t, r[0].loops.All[0], func(l *loop.Loop) { stats = l.Stats() })
		return stats
	}
	before := ask()
	for range 100 {
		if g := r[0].get("x"); g.text != "1" {
			t.Fatal(g)
		}
	}
	if n := ask().Ctls - before.Ctls; n != 0 {
		t.Error(n, " calls of epoll_ctl")
	}
	s.closed(t)
}

// TestIdleForOtherLoops: an idle connection serves all loops, by turns, and no other is made.
func TestIdleForOtherLoops(t *testing.T) {
	s := numbers(t)
	_, r := keeping(t, s, 3, nil)
	for i := range 30 {
		if g := r[i%3].get("x"); g.text != "1" {
			t.Fatal(i, g)
		}
	}
	s.closed(t)
}

// TestIdleOrder: requests that come one after the other take turns with the connections that a
// burst has left, or, with Newest, leave all but one alone, which is closed in time.
func TestIdleOrder(t *testing.T) {
	const burst = 4
	for _, newest := range []bool{false, true} {
		var arrived sync.WaitGroup
		arrived.Add(burst)
		s := start(t, func(conn int, line string) string {
			if line == "burst" {
				arrived.Done()
				arrived.Wait()
			}
			return fmt.Sprint(conn)
		})
		const timeout = time.Minute
		pool, r := keeping(t, s, 2, func(s *upstream.Settings) {
			s.MaxIdle, s.IdleTimeout, s.Newest = burst, timeout, newest
		})
		done := make(chan got)
		for i := range burst {
			r[i%2].ask("burst", false, done)
		}
		for range burst {
			if g := <-done; g.err != nil {
				t.Fatal(g.err)
			}
		}
		used := make(map[string]bool)
		ask := func() { used[r[0].get("x").text] = true }
		for range 3 * burst {
			ask()
		}
		if want := map[bool]int{false: burst / 2, true: 1}[newest]; len(used) != want {
			t.Errorf("newest %t: %d connections are used, want %d", newest, len(used), want)
		}
		if newest {
			pool.Age(timeout * 2 / 3)
			ask()
			pool.Age(timeout * 2 / 3)
			wait.Until(t, "those of the burst are closed", func() bool {
				open, _ := s.connections()
				return open == 1
			})
		}
		s.closed(t)
	}
}

// TestIdleOfABusyLoop: no loop hoards connections. Another loop takes one at once at max_conns,
// even while the loop that keeps it does not look at anything.
func TestIdleOfABusyLoop(t *testing.T) {
	s := numbers(t)
	for _, fresh := range []bool{false, true} {
		pool, r := keeping(t, s, 2, func(s *upstream.Settings) { s.MaxConns = 1 })
		first := r[0].get("x").text
		goOn, held := make(chan bool), make(chan bool)
		_ = r[0].loops.All[0].Post(func() { close(held); <-goOn })
		<-held
		done := make(chan got)
		r[1].ask("x", fresh, done)
		select {
		case g := <-done:
			if g.err != nil || (g.text == first) == fresh {
				t.Error(g)
			}
		case <-time.After(wait.Patience):
			t.Error("it waits for the other loop")
		}
		if n := pool.Idle() + pool.Active(); n != 1 {
			t.Error(n, " connections")
		}
		close(goOn)
		if g := r[0].get("x"); g.err != nil {
			t.Error(g)
		}
		s.closed(t)
		if n := pool.Idle(); n != 0 {
			t.Error(n, " are idle")
		}
	}
}

// TestIdleOutlivesItsLoop: a loop that has stopped leaves its connections to the others, and to the
// pool, which closes them in time.
func TestIdleOutlivesItsLoop(t *testing.T) {
	t.Parallel()
	s := numbers(t)
	const timeout = time.Second
	_, r := keeping(t, s, 2, func(s *upstream.Settings) { s.IdleTimeout = timeout })
	begun := time.Now()
	r[0].get("x")
	r[0].loops.Stop(0)
	if g := r[1].get("x"); g.text != "1" && time.Since(begun) < timeout {
		t.Error(g)
	}
	r[1].loops.Stop(0)
	s.pool = nil // the timer is what closes it
	s.closed(t)
}

// TestIdleEnds: an idle connection that the service has closed, or on which bytes have come, is not
// used, on its own loop or another.
func TestIdleEnds(t *testing.T) {
	for what, spoil := range map[string]func(s *service){
		"closed": func(s *service) { s.each(func(c io.WriteCloser) { c.Close() }) },
		"bytes":  func(s *service) { s.each(func(c io.WriteCloser) { io.WriteString(c, "stale\n") }) },
	} {
		t.Run(what, func(t *testing.T) {
			s := numbers(t)
			_, r := keeping(t, s, 2, nil)
			for i := range 6 {
				if g := r[i/2%2].get("x"); g.err != nil || g.text == "stale" {
					t.Error(i, g)
				}
				spoil(s)
				for range 2 { // the second time, the loop has looked at its events since
					loops.On(t, r[i/2%2].loops.All[0], func(*loop.Loop) {})
				}
			}
			s.closed(t)
		})
	}
}

// TestIdleEndsUnseen: that counts as well before the loop has looked at its events, for a request
// that cannot be sent again, and for all if it has not looked since the connection was given back,
// or if there is a doubt.
func TestIdleEndsUnseen(t *testing.T) {
	for what, spoil := range map[string]func(c io.WriteCloser){
		"closed": func(c io.WriteCloser) { c.Close() },
		"bytes":  func(c io.WriteCloser) { io.WriteString(c, "stale\n") },
	} {
		for _, way := range []string{"just idle", "doubtful", "not again"} {
			t.Run(what+", "+way, func(t *testing.T) {
				want := upstream.Reused
				if way == "not again" {
					want = upstream.JustUsed
				}
				s := numbers(t)
				_, r := keeping(t, s, 1, nil)
				r[0].get("x")
				done := make(chan bool, 1)
				r[0].loops.Go(0, func(th *loop.Thread) {
					connect := func(want upstream.Want) (l upstream.Lease, conn *stream.Conn, reused bool) {
						l = r[0].Lease()
						conn, reused, err := l.Connect(th, want)
						if err != nil {
							t.Error(err)
						}
						return l, conn, reused
					}
					if want == upstream.Reused {
						l, conn, _ := connect(want)
						if way == "doubtful" {
							l.ExpectStrayInput()
						}
						l.Keep(conn, 0)
					}
					if way == "doubtful" {
						_ = th.Sleep(time.Millisecond) // the loop looks
					}
					s.each(spoil)
					l, conn, reused := connect(want)
					l.Close(conn)
					done <- reused
				})
				if <-done {
					t.Error("the connection is used again")
				}
				s.closed(t)
			})
		}
	}
}

// TestIdleBySeveralLoops: loops that ask all at once, and take from each other, have no more
// connections than allowed, and lose none of the slots.
func TestIdleBySeveralLoops(t *testing.T) {
	const loops, threads, rounds, most = 3, 4, 40, 2
	var now, seen atomic.Int32
	s := start(t, func(int, string) string {
		n := now.Add(1)
		defer now.Add(-1)
		for old := seen.Load(); n > old && !seen.CompareAndSwap(old, n); old = seen.Load() {
		}
		return "hello"
	})
	pool, r := keeping(t, s, loops, func(s *upstream.Settings) { s.MaxConns = most })
	done := make(chan got)
	n := 0
	for i := range loops {
		for j := range threads {
			n++
			go func() {
				for k := range rounds {
					one := make(chan got)
					r[i].ask("x", j == 0 && k%5 == 0, one)
					if g := <-one; g.text != "hello" {
						done <- g
						return
					}
				}
				done <- got{text: "hello"}
			}()
		}
	}
	for range n {
		answered(t, done)
	}
	if n := pool.Active(); n != 0 {
		t.Error(n, " slots are lost")
	}
	if n := seen.Load(); n > most {
		t.Error(n, " at once")
	}
	s.closed(t)
}

// TestKilledWithAReused: a thread that is killed while it has an idle connection gives its slot
// back.
func TestKilledWithAReused(t *testing.T) {
	s, goOn := stepwise(t)
	pool, r := keeping(t, s, 2, func(s *upstream.Settings) { s.MaxConns = 1 })
	done := make(chan got, 1)
	r[0].ask("0", false, done)
	s.requests(t, 1)
	goOn <- true
	<-done
	r[1].ask("1", false, make(chan got, 1)) // takes it from the other loop, and waits
	s.requests(t, 2)
	r[0].ask("2", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 1 })
	r[1].loops.Stop(0)
	s.requests(t, 3)
	goOn <- true
	goOn <- true
	answered(t, done)
	if got := s.seen(); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Error(got)
	}
}

// each calls f with every open connection.
func (s *service) each(f func(c io.WriteCloser)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		f(c)
	}
}

// TestClosedBeforeItsSlotIsFree: a connection that is not kept is closed before another request
// has its slot, even if that takes long: there are never more than max_conns.
func TestClosedBeforeItsSlotIsFree(t *testing.T) {
	t.Parallel()
	ln := must.Listen(t)
	raw := must.Get(ln.(*net.TCPListener).SyscallConn())(t)
	must.Do(t, raw.Control(func(fd uintptr) { // for what is accepted
		must.Do(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10))
	}))
	accept := func() net.Conn {
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
		}
		return c
	}
	pool := new(upstream.Pool)
	var r [2]*route
	for i := range r {
		r[i] = newRoute(t, pool, []string{ln.Addr().String()}, func(s *upstream.Settings) {
			s.MaxConns = 1
		})
	}
	begun := make(chan time.Time, 1)
	r[0].loops.Go(0, func(th *loop.Thread) {
		defer close(begun)
		l := r[0].Lease()
		defer l.Release()
		s, _, err := l.Connect(th, upstream.Reused)
		if err != nil {
			t.Error(err)
			return
		}
		// close(2) waits for a second, since the peer does not take what is sent.
		fd, err := s.Release()
		if err == nil {
			err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER,
				&unix.Linger{Onoff: 1, Linger: 1})
		}
		if err == nil { // more than the peer's kernel has room for, even if it is slow to take it
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 200<<10)
		}
		for block := make([]byte, 1<<20); err == nil; {
			_, err = unix.Write(fd, block)
		}
		if err != unix.EAGAIN {
			t.Error(err)
		}
		if s, err = stream.New(th.Loop(), fd); err != nil {
			t.Error(err)
			return
		}
		begun <- time.Now()
		l.Keep(s, 0)
	})
	defer accept().Close()
	begin, ok := <-begun
	if !ok {
		return
	}
	done := make(chan got, 1)
	r[1].ask("x", false, done)
	second := accept()
	if d := time.Since(begin); d < 900*time.Millisecond {
		t.Error("another connection after ", d)
	}
	second.Close()
	<-done
}
