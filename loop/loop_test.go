package loop_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func TestRunReturnsWhenNoWorkRemains(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		var trace []string
		for _, s := range []struct {
			name  string
			steps []time.Duration
		}{{"a", []time.Duration{10, 500}}, {"b", []time.Duration{10, 10}}} {
			l.Go(func(th *loop.Thread) {
				for i, d := range s.steps {
					if err := th.Sleep(d * time.Millisecond); err != nil {
						t.Error(err)
					}
					trace = append(trace, fmt.Sprint(s.name, i+1))
				}
			})
		}
		began := time.Now()
		mustRun(t, l)
		if got := strings.Join(trace, " "); got != "a1 b1 b2 a2" && got != "b1 a1 b2 a2" {
			t.Errorf("order %s", got)
		}
		if d := time.Since(began); d < 510*time.Millisecond {
			t.Errorf("timers early: ended after %v", d)
		}
	})
}

func TestYieldLetsOthersRun(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var trace strings.Builder
		for _, name := range "ab" {
			l.Go(func(th *loop.Thread) {
				for range 3 {
					trace.WriteRune(name)
					th.Yield()
				}
			})
		}
		mustRun(t, l)
		if trace.String() != "ababab" {
			t.Errorf("order %s", trace.String())
		}
	})
}

func TestPostKeepsOrderAndEndsWithTheLoop(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		release := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			for {
				select {
				case <-release:
					return
				default:
					_ = th.Sleep(time.Millisecond)
				}
			}
		})
		wait := start(t, l)
		const posters, each = 8, 500
		got := make([][]int, posters)
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				for i := range each {
					if err := l.Post(func() { got[p] = append(got[p], i) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		on(t, l, func() {
			for p := range got {
				for i, v := range got[p] {
					if v != i {
						t.Fatalf("poster %d: %d at %d", p, v, i)
					}
				}
				if len(got[p]) != each {
					t.Errorf("poster %d: %d calls", p, len(got[p]))
				}
			}
		})
		close(release)
		wait()
		if err := l.Post(func() { t.Error("called after the end") }); !errors.Is(err,
			net.ErrClosed) {
			t.Errorf("Post after the end: %v", err)
		}
	})
}

func TestEchoNeedsNoEpollCtlWhileItKeepsUp(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		buf := make([]byte, 512)
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			n, errno := b.Thread.Layer().Descriptor().Recv(buf)
			if errno == unix.EAGAIN {
				return coro.WantRead
			}
			if n == 0 {
				return coro.Abort
			}
			if m, errno := unix.Write(b.FD(), buf[:n]); m != n && errno != unix.EAGAIN {
				t.Errorf("write: %d of %d, %v", m, n, errno)
			}
			return coro.WantRead
		}})
		wait := start(t, l)
		ping := func() {
			must.Get(c.Write([]byte("p")))(t)
			must.Get(c.Read(make([]byte, 1)))(t)
		}
		ping()
		var before, after loop.Stats
		on(t, l, func() { before = l.Stats() })
		for range 100 {
			ping()
		}
		on(t, l, func() { after = l.Stats() })
		if n := after.Ctls - before.Ctls; n != 0 && !invariants.Enabled {
			t.Errorf("%d epoll_ctl calls in 100 echoes", n)
		}
		c.Close()
		wait()
	})
}

// A thread in every state, with a peer that left something behind: the loop must go to sleep and
// stay asleep.
func TestNothingSpins(t *testing.T) {
	t.Parallel()
	states := map[string]func(b *task) coro.Code{
		"suspended": func(b *task) coro.Code {
			b.KeepWaiting(true)
			_ = b.Sleep(time.Hour)
			return coro.Abort
		},
		"want write": func(b *task) coro.Code {
			for chunk := make([]byte, 1<<20); ; {
				if _, errno := unix.Write(b.FD(), chunk); errno == unix.EAGAIN {
					_ = b.WantWrite(time.Hour)
				} else if errno != nil {
					b.KeepWaiting(true)
					_ = b.Sleep(time.Hour)
				}
			}
		},
		"sleeping, client noticed": func(b *task) coro.Code {
			for {
				if err := b.Sleep(time.Hour); err != nil {
					b.KeepWaiting(true)
				}
			}
		},
		"awaiting a pipe": func(b *task) coro.Code {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
				panic(err)
			}
			b.Defer(func() { unix.Close(p[0]); unix.Close(p[1]) })
			b.KeepWaiting(true)
			_ = b.AwaitRead(time.Hour, p[0])
			return coro.Abort
		},
	}
	peers := map[string]func(c *net.TCPConn){
		"half-closed": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"half-closed after data": func(c *net.TCPConn) {
			_, _ = c.Write([]byte("x"))
			_ = c.CloseWrite()
		},
		"reset":                 func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"readable, not awaited": func(c *net.TCPConn) { _, _ = c.Write([]byte("x")) },
	}
	type running struct {
		name   string
		c      *net.TCPConn
		l      *loop.Loop
		wait   func()
		before int64
	}
	var all []running // at once: the silent second is the same for all
	for state, f := range states {
		for peer, leave := range peers {
			run(t, func(t *testing.T, l *loop.Loop) {
				entered := make(chan struct{})
				c := connect(t, l, &task{run: func(b *task) coro.Code {
					_, _ = unix.Read(b.FD(), make([]byte, 1))
					close(entered)
					return f(b)
				}})
				wait := start(t, l)
				_, _ = c.Write([]byte("!"))
				<-entered
				leave(c)
				all = append(all, running{name: t.Name() + ", " + state + ", " + peer, c: c, l: l,
					wait: wait})
			})
		}
	}
	waits := func(l *loop.Loop) (n int64) {
		on(t, l, func() { n = l.Stats().Waits })
		return n
	}
	for range 20 { // what the peers did takes effect within a few turns
		for i := range all {
			all[i].before = waits(all[i].l)
		}
		time.Sleep(time.Millisecond)
	}
	for i := range all {
		all[i].before = waits(all[i].l)
	}
	time.Sleep(time.Second)
	for _, r := range all {
		if n := waits(r.l) - r.before; n > 4 {
			t.Errorf("%s: %d returns of epoll_wait in a silent second", r.name, n)
		}
		r.l.Stop(0)
		r.wait()
		r.c.Close()
	}
}

func TestSleepEndsWhenTheClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(c *net.TCPConn){
		"by FIN":   func(c *net.TCPConn) { _ = c.CloseWrite() },
		"by reset": func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				var first, second, kept error
				entered := make(chan struct{})
				b := &task{run: func(b *task) coro.Code {
					close(entered)
					first = b.Sleep(time.Hour)
					second = b.Sleep(time.Hour)
					b.KeepWaiting(true)
					kept = b.Sleep(time.Millisecond)
					return coro.Abort
				}}
				c := serve(t, l, b)
				_, _ = c.Write([]byte("x"))
				wait := start(t, l)
				<-entered
				leave(c)
				wait()
				if !errors.Is(first, loop.ErrClientGone) ||
					!errors.Is(second, loop.ErrClientGone) || kept != nil {
					t.Errorf("errors %v, %v, %v", first, second, kept)
				}
				if b.left != 1 || !b.Gone() {
					t.Errorf("ClientGone called %d times, Gone %v", b.left, b.Gone())
				}
			})
		})
	}
}

func TestWantsTimeOut(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var errs []error
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 8))
			errs = append(errs, b.WantRead(10*time.Millisecond), b.WantRead(0),
				b.WantReadWrite(time.Hour), b.WantWrite(time.Hour))
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		mustRun(t, l)
		want := []error{loop.ErrDeadlineExceeded, os.ErrDeadlineExceeded, nil, nil}
		for i := range want {
			if !errors.Is(errs[i], want[i]) {
				t.Errorf("wait %d: %v, want %v", i, errs[i], want[i])
			}
		}
	})
}

func TestIdleThreadHoldsNoCoroutineAndTimesOut(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const threads = 50
		runs := make(map[any]int)
		for range threads {
			fds := must.Get(unix.Socketpair(unix.AF_UNIX,
				unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
			defer unix.Close(fds[1])
			b := &task{run: func(b *task) coro.Code {
				if b.Thread.Layer().Local() == nil {
					b.Thread.Layer().SetLocal(new(int))
				}
				runs[b.Thread.Layer().Local()]++
				_, _ = unix.Read(b.FD(), make([]byte, 8))
				b.Thread.Layer().IdleTimeout(20 * time.Millisecond)
				return coro.WantRead
			}}
			must.Do(t, l.Attach(&b.Thread, fds[0], b, time.Hour))
			_, _ = unix.Write(fds[1], []byte("x"))
		}
		mustRun(t, l) // ends because all time out
		if len(runs) != 1 {
			t.Errorf("%d threads in turn took %d coroutines", threads, len(runs))
		}
	})
}

func TestPanicAndGoexitEndTheirThreadAlone(t *testing.T) {
	runPanicking(t, func(t *testing.T, l *loop.Loop) {
		cleaned := 0
		l.Go(func(th *loop.Thread) {
			th.Defer(func() { cleaned++ })
			panic("on purpose")
		})
		alive := false
		l.Go(func(th *loop.Thread) {
			_ = th.Sleep(5 * time.Millisecond)
			alive = true
		})
		mustRun(t, l)
		if cleaned != 1 || !alive {
			t.Errorf("cleaned %d, the other alive %v", cleaned, alive)
		}
	})
}

func TestStopGivesIdleThreadsALastRunAndKillsAfterTheGracePeriod(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		lastRun, cleaned, finished := false, false, false
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 8))
			if b.Loop().Stopping() {
				lastRun = true
				return coro.Abort
			}
			return coro.WantRead
		}})
		_, _ = c.Write([]byte("x"))
		started := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			th.Defer(func() { cleaned = true; _ = th.Sleep(time.Hour) })
			close(started)
			_ = th.Sleep(time.Hour)
		})
		l.Go(func(th *loop.Thread) {
			for !th.Loop().Stopping() {
				_ = th.Sleep(time.Millisecond)
			}
			_ = th.Sleep(5 * time.Millisecond)
			finished = true
			l.Stop(time.Millisecond) // the rest has had its time
		})
		wait := start(t, l)
		<-started
		l.Stop(time.Minute)
		wait()
		if !lastRun || !cleaned || !finished {
			t.Errorf(
				"last run %v, deferred call of the killed %v, thread within the grace period finished %v",
				lastRun, cleaned, finished)
		}
	})
}
