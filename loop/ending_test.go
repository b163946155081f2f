package loop_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestEndingLoopTakesNothing: what deferred calls start, attach and post when the grace period is
// over does not keep Run from returning. What was posted before is called.
func TestEndingLoopTakesNothing(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		forever := func(th *loop.Thread) { _ = th.Sleep(time.Hour) }
		called := make(chan string, 10)
		var again func(th *loop.Thread)
		again = func(th *loop.Thread) {
			th.Defer(func() { called <- "deferred"; l.Go(again) })
			forever(th)
		}
		var late *loop.Thread
		var repost func()
		repost = func() { _ = l.Post(repost) }
		l.Go(func(th *loop.Thread) {
			th.Defer(func() {
				late = l.Go(again)
				fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
					0)
				if err != nil {
					t.Error(err)
					return
				}
				defer unix.Close(fds[0])
				defer unix.Close(fds[1])
				b := &task{run: func(*task) coro.Code { return coro.Abort }}
				if err := l.Attach(&b.Thread, fds[0], b, -1); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Attach: %v", err)
				}
				if err := l.Post(func() { l.Go(forever) }); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Post: %v", err)
				}
			})
			l.Go(again)
			forever(th)
		})
		l.Go(func(th *loop.Thread) {
			_ = l.Post(func() { called <- "posted"; l.Go(again) })
			repost()
			l.Stop(0)
			forever(th)
		})
		start(t, l)()
		close(called)
		got := map[string]int{}
		for what := range called {
			got[what]++
		}
		if got["posted"] != 1 || got["deferred"] != 2 {
			t.Errorf("called: %v", got)
		}
		if _, err := late.End().Value(); !errors.Is(err, loop.ErrCanceled) {
			t.Errorf("the thread that was started too late has ended with %v", err)
		}
		if left := loop.Left(l); len(left) > 0 {
			t.Error(left)
		}
	})
}

// TestPanicWhileKilled: the panic of a deferred call is what a killed thread has ended with, and is
// logged.
func TestPanicWhileKilled(t *testing.T) {
	runPanicking(t, func(t *testing.T, l *loop.Loop) {
		forever := func(th *loop.Thread) error { return th.Sleep(time.Hour) }
		var ends []*loop.Thread
		l.Go(func(th *loop.Thread) {
			ends = append(ends,
				l.Go(func(th *loop.Thread) {
					th.Defer(func() { panic("by Defer") })
					_ = forever(th)
				}),
				l.Go(func(th *loop.Thread) {
					defer panic("by defer")
					_ = forever(th)
				}),
				th.Go(func(th *loop.Thread) error {
					th.Defer(func() { panic("by a member's Defer") })
					return forever(th)
				}),
				th.Go(func(th *loop.Thread) error {
					defer panic("by a member's defer")
					return forever(th)
				}),
				l.Go(func(th *loop.Thread) { _ = forever(th) }),
			)
			for _, th := range ends {
				th.End()
			}
			th.Yield()
			l.Stop(0)
			_ = forever(th)
		})
		start(t, l)()
		for i, want := range []string{"by Defer", "by defer", "by a member's Defer",
			"by a member's defer", ""} {
			_, err := ends[i].End().Value()
			var p *loop.PanicError
			if errors.As(err, &p); p == nil && want == "" {
				if !errors.Is(err, loop.ErrCanceled) {
					t.Errorf("without a panic: %v", err)
				}
			} else if p == nil || p.Value != want {
				t.Errorf("%s: it has ended with %v", want, err)
			}
		}
	})
}
