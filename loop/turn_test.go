package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

const (
	crowd       = 2000                  // threads that end at once
	closing     = 20 * time.Microsecond // what the end of one takes, as that of a connection does
	longestTurn = 5 * time.Millisecond
)

// turns counts how many threads toil in one turn of a loop, that is, between two polls,
// and between two turns of another thread.
type turns struct {
	loop               *loop.Loop
	poll               int64 // number of the last one
	sincePoll, atOnce  int   // threads
	sinceOther, before int
}

// toil takes as long as the end of a connection.
func (c *turns) toil() {
	if poll := c.loop.Stats().Waits; poll != c.poll {
		c.poll, c.sincePoll = poll, 0
	}
	c.sincePoll++
	c.sinceOther++
	c.atOnce = max(c.atOnce, c.sincePoll)
	for begin := time.Now(); time.Since(begin) < closing; {
	}
}

// watch starts a thread that runs in each turn.
func (c *turns) watch() {
	c.loop.Go(func(t *loop.Thread) {
		for !c.loop.Stopping() || c.loop.Threads() > 1 {
			t.Yield()
			c.before, c.sinceOther = max(c.before, c.sinceOther), 0
		}
	})
}

// leaver is an idle thread with an eventfd. It toils when it ends.
type leaver struct {
	loop.Thread
	turns *turns
}

func (v *leaver) Run(t *loop.Thread) coro.Code {
	if t.Loop().Stopping() {
		return coro.Abort
	}
	return coro.WantRead
}
func (v *leaver) ClientGone() {}
func (v *leaver) Ended()      { v.turns.toil() }

// TestShortTurns: thousands of threads that end, or go on, at the same moment do not hold the loop
// for the time that this takes: it polls for events in between.
func TestShortTurns(t *testing.T) {
	attach := func(t *testing.T, l *loop.Loop, c *turns, timeout time.Duration) {
		for range crowd {
			fd := must.Get(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))(t)
			v := &leaver{turns: c}
			must.Do(t, l.Attach(&v.Thread, fd, v, timeout))
		}
	}
	for name, test := range map[string]struct {
		begin func(t *testing.T, l *loop.Loop, c *turns)
		queue bool // all are in the run queue at once, in front of any other thread
	}{
		"time is up": {func(t *testing.T, l *loop.Loop, c *turns) {
			attach(t, l, c, 20*time.Millisecond)
			l.Go(func(th *loop.Thread) {
				for l.Threads() > 2 {
					_ = th.Sleep(5 * time.Millisecond)
				}
				l.Stop(time.Minute)
			})
		}, false},
		"a stop": {func(t *testing.T, l *loop.Loop, c *turns) {
			attach(t, l, c, -1)
			l.Go(func(th *loop.Thread) {
				_ = th.Sleep(20 * time.Millisecond)
				l.Stop(time.Minute)
			})
		}, false},
		"a promise is settled": {func(t *testing.T, l *loop.Loop, c *turns) {
			p := new(loop.Promise[int])
			for range crowd {
				l.Go(func(th *loop.Thread) {
					_, _ = p.Await(th, -1)
					c.toil()
				})
			}
			l.Go(func(th *loop.Thread) {
				_ = th.Sleep(20 * time.Millisecond)
				p.Resolve(1)
				l.Stop(time.Minute)
			})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				c := turns{loop: l}
				test.begin(t, l, &c)
				c.watch()
				mustRun(t, l)
				if took := time.Duration(c.atOnce) * closing; took > longestTurn {
					t.Errorf("a turn has taken %v, want at most %v", took, longestTurn)
				}
				if took := time.Duration(c.before) * closing; took > longestTurn && !test.queue {
					t.Errorf("another thread has waited for %v, want at most %v", took, longestTurn)
				}
			})
		})
	}
}

// TestOnePoll: while events come singly, the loop makes one system call for each, and does not look
// for others before it waits.
func TestOnePoll(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const rounds = 200
		fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
		defer unix.Close(fds[1])
		must.Do(t, unix.SetNonblock(fds[0], true))
		echo := &task{run: func(b *task) coro.Code {
			var buf [8]byte
			n, err := unix.Read(b.FD(), buf[:])
			if n <= 0 || err != nil {
				return coro.Abort
			}
			if _, err := unix.Write(b.FD(), buf[:n]); err != nil {
				return coro.Abort
			}
			return coro.WantRead
		}}
		must.Do(t, l.Attach(&echo.Thread, fds[0], echo, -1))
		wait := start(t, l)
		var before, after int64
		on(t, l, func() { before = l.Stats().Waits })
		for range rounds {
			var buf [8]byte
			must.Get(unix.Write(fds[1], []byte("x")))(t)
			if n, err := unix.Read(fds[1], buf[:]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		on(t, l, func() { after = l.Stats().Waits })
		if polls := after - before; polls > rounds*5/4 {
			t.Errorf("%d polls for %d events", polls, rounds)
		}
		must.Do(t, unix.Shutdown(fds[1], unix.SHUT_WR))
		wait()
	})
}
