package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// A thread that goes on for ever, with one descriptor after the other, does not grow.
func TestLongLivedThreadForgetsItsDescriptors(t *testing.T) {
	for _, way := range []string{"CloseFD", "close", "hang-up"} {
		t.Run(way, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(func(th *loop.Thread) {
					mark := th.Mark()
					for range 500 {
						s := openPair(t)
						if way == "hang-up" {
							unix.Close(s[1])
						}
						_ = th.AwaitRead(0, s[0])
						_, _ = th.AwaitAny(0, loop.Writable(s[0]))
						if way == "CloseFD" {
							want(t, th.CloseFD(s[0]), nil)
						} else {
							unix.Close(s[0])
						}
						if way != "hang-up" {
							unix.Close(s[1])
						}
					}
					if n := loop.RawFDs(th); n > 8 {
						t.Errorf("it remembers %d", n)
					}
					if n := th.Mark() - mark; n > 1 {
						t.Errorf("%d deferred calls", n)
					}
				})
				mustRun(t, l)
			})
		})
	}
}

// TestRawFDPassesOn: a raw descriptor passes from thread to thread, and is released by the last.
func TestRawFDPassesOn(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, _ := pipe(t)
		l.Go(func(th *loop.Thread) {
			for range 50 {
				want(t, th.AwaitRead(0, r), loop.ErrDeadlineExceeded)
				ctls := l.Stats().Ctls
				_ = th.Scope(func() error {
					th.Go(func(th *loop.Thread) error { // takes it, and returns it to the kernel
						want(t, th.AwaitRead(0, r), loop.ErrDeadlineExceeded)
						return nil
					})
					return nil
				})
				if n := l.Stats().Ctls - ctls; n != 2 {
					t.Errorf("%d epoll_ctl calls, want one MOD and one DEL", n)
				}
			}
			if n := loop.RawFDs(th); n > 4 {
				t.Errorf("it remembers %d", n)
			}
		})
		mustRun(t, l)
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}

// echo is a thread's partner in a game of ping-pong over two pipes: each waits for the other.
func echo(l *loop.Loop, in, out int) {
	l.Go(func(th *loop.Thread) {
		buf := make([]byte, 8)
		for {
			n, err := th.ReadFD(-1, in, buf)
			if err != nil {
				return
			}
			_, _ = th.WriteFD(-1, out, buf[:n])
		}
	})
}

// A wait for a lent descriptor costs one call of epoll_ctl.
func TestLentWaitCosts(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var there, back [2]int
		_ = unix.Pipe2(there[:], unix.O_NONBLOCK|unix.O_CLOEXEC)
		_ = unix.Pipe2(back[:], unix.O_NONBLOCK|unix.O_CLOEXEC)
		echo(l, there[0], back[1])
		l.Go(func(th *loop.Thread) {
			one, buf := []byte("x"), make([]byte, 8)
			ping := func() {
				_, _ = th.WriteFD(-1, there[1], one)
				if n, err := th.ReadFD(-1, back[0], buf); n != 1 || err != nil {
					t.Errorf("read %d, %v", n, err)
				}
			}
			ping()
			before := l.Stats()
			n := testing.AllocsPerRun(200, ping)
			after := l.Stats()
			if n != 0 {
				t.Errorf("%v allocations", n)
			}
			ctls, resumes := after.Ctls-before.Ctls, after.Resumes-before.Resumes
			if resumes < 400 || ctls > resumes {
				t.Errorf("%d epoll_ctl calls for %d waits", ctls, resumes)
			}
			unix.Close(there[1])
		})
		mustRun(t, l)
		unix.Close(there[0])
		unix.Close(back[0])
		unix.Close(back[1])
	})
}

// Waits for several things: what the first one allocates is all.
func TestAwaitAnyAllocates(t *testing.T) {
	ci.Without(t, invariants.Enabled, "the checks cost")
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		l.Go(func(th *loop.Thread) {
			buf := make([]byte, 8)
			sub, timer, promise := new(signal), th.After(time.Hour), new(loop.Promise[int])
			readable := loop.Readable(r)
			post := func() { sub.set() }
			for name, f := range map[string]func(){
				"subscription": func() {
					_ = l.Post(post)
					if i, err := th.AwaitAny(time.Minute, readable, timer, promise, sub); i != 3 || err != nil {
						t.Error(i, err)
					}
					sub.take()
				},
				"descriptor": func() {
					_, _ = unix.Write(w, buf[:1])
					if i, err := th.AwaitAny(time.Minute, readable, timer, promise, sub); i != 0 || err != nil {
						t.Error(i, err)
					}
					_, _ = unix.Read(r, buf)
				},
				"timer": func() {
					timer.Reset(0)
					if i, err := th.AwaitAny(time.Minute, readable, timer, promise, sub); i != 1 || err != nil {
						t.Error(i, err)
					}
					timer.Reset(time.Hour)
				},
			} {
				f()
				if n := testing.AllocsPerRun(100, f); n > 1 {
					t.Errorf("%s: %v allocations", name, n)
				}
			}
			before := l.Stats().Ctls
			for range 10 {
				_ = l.Post(post)
				_, _ = th.AwaitAny(time.Minute, readable, timer, promise, sub)
				sub.take()
			}
			if n := l.Stats().Ctls - before; n != 10 {
				t.Errorf("%d epoll_ctl calls for ten waits", n)
			}
		})
		mustRun(t, l)
	})
}
