package loop_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// runWorkers is run with a small pool.
func runWorkers(t *testing.T, workers int, f func(t *testing.T, l *loop.Loop)) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		t.Run(h.String(), func(t *testing.T) {
			l := must.Get(loop.New(loop.Options{Handoff: h, Workers: workers}))(t)
			f(t, l)
			if left := loop.Left(l); left != nil {
				t.Errorf("left with the loop: %v", left)
			}
		})
	}
}

func TestAwaitFunction(t *testing.T) {
	runWorkers(t, 1, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			want(t, th.Await(-1, func(context.Context) error { return nil }), nil)
			want(t, th.Await(-1, func(context.Context) error { return errBoom }), errBoom)
			want(t, th.Await(-1, func(context.Context) error { panic(errBoom) }), errBoom)
			want(t, th.Await(-1, func(context.Context) error {
				runtime.Goexit()
				return nil
			}), loop.ErrExited)
			if th.Layer().AbandonCalls() {
				t.Error("functions that have returned are counted")
			}
			v, err := loop.Call(th, func() (string, error) { return "value", nil }).Await(th, -1)
			if v != "value" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
		mustRun(t, l)
	})
}

// TestContextOfAwait: the function's context ends with the wait, whatever ends that, and says why;
// at the limit the error is the same whether the thread or the function sees it first.
func TestContextOfAwait(t *testing.T) {
	runWorkers(t, 1, func(t *testing.T, l *loop.Loop) {
		cause := make(chan error, 1)
		until := func(ctx context.Context) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}
		l.Go(func(th *loop.Thread) {
			if err := th.Await(0, until); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			want(t, <-cause, context.DeadlineExceeded)
			for l.Stats().Calls > 0 { // until the only worker is free: else the next one may never begin
				_ = th.Sleep(time.Millisecond)
			}
			_ = th.Scope(func() error {
				th.Go(func(th *loop.Thread) error {
					want(t, th.Await(-1, until), loop.ErrCanceled)
					return nil
				})
				th.Yield()
				return errBoom
			})
			want(t, <-cause, loop.ErrCanceled)
			had, err := loop.Await(th, -1, func(ctx context.Context) (context.Context, error) {
				return ctx, ctx.Err()
			})
			want(t, err, nil)
			want(t, had.Err(), context.Canceled)
		})
		mustRun(t, l)
	})
}

// The functions that a request has heard the end of are not running, however soon it looks.
func TestReturnedFunctionIsNotRunning(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		for range 10 {
			l.Go(func(th *loop.Thread) {
				for range 100 {
					if err := th.Await(-1, func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
					if th.Layer().AbandonCalls() {
						t.Error("still counted")
						return
					}
				}
			})
		}
		mustRun(t, l)
	})
}

func TestPoolFull(t *testing.T) {
	runWorkers(t, 2, func(t *testing.T, l *loop.Loop) {
		release := make(chan struct{})
		var begun atomic.Int32
		block := func(context.Context) error { begun.Add(1); <-release; return nil }
		l.Go(func(th *loop.Thread) {
			th.Go(func(th *loop.Thread) error { return th.Await(-1, block) })
			th.Go(func(th *loop.Thread) error { return th.Await(-1, block) })
			th.Yield()
			if n := l.Stats().Calls; n != 2 {
				t.Errorf("%d functions run", n)
			}
			never := func(context.Context) error { t.Error("it has run"); return nil }

			// Within its limit, canceled, and killed: it does not run.
			want(t, th.Await(2*time.Millisecond, never), loop.ErrDeadlineExceeded)
			_ = th.Scope(func() error {
				th.Go(func(th *loop.Thread) error {
					want(t, th.Await(-1, never), loop.ErrCanceled)
					return nil
				})
				th.Yield()
				th.Cancel()
				return nil
			})

			// Deferred calls withdraw what no thread waits for; its promise is settled.
			mark := th.Mark()
			var withdrawn [3]*loop.Promise[int]
			for i := range withdrawn {
				withdrawn[i] = loop.Call(th, func() (int, error) { return 0, never(context.Background()) })
			}
			if n := th.Mark() - mark; n != 1 {
				t.Errorf("%d deferred calls", n)
			}
			th.Go(func(th *loop.Thread) error { // and not another thread's
				return th.Await(-1, func(context.Context) error { begun.Add(1); return nil })
			})
			th.Yield()
			th.RunDeferred(mark)
			for _, p := range withdrawn {
				_, err := p.Value()
				want(t, err, loop.ErrCanceled)
			}

			// Its turn comes.
			waiting := loop.Call(th, func() (int, error) { return 7, nil })
			close(release)
			v, err := waiting.Await(th, -1)
			if v != 7 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
			want(t, th.Join(), nil)
			if n := begun.Load(); n != 3 {
				t.Errorf("%d have begun", n)
			}
		})
		mustRun(t, l)
	})
}

// A function that does not return: the wait returns, the function is counted for the thread whose
// scope it was called in, and the loop stops without it.
func TestFunctionNeverReturns(t *testing.T) {
	runWorkers(t, 8, func(t *testing.T, l *loop.Loop) {
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		block := func(context.Context) error { <-release; return nil }
		l.Go(func(th *loop.Thread) {
			want(t, th.Await(time.Millisecond, block), loop.ErrDeadlineExceeded)
			if !th.Layer().AbandonCalls() || th.Layer().AbandonCalls() {
				t.Error("not counted, or twice")
			}
			if err := th.Scope(func() error { // a child's
				th.Go(func(th *loop.Thread) error {
					th.Go(func(th *loop.Thread) error { return th.Await(time.Millisecond, block) })
					return nil
				})
				return nil
			}); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			if !th.Layer().AbandonCalls() {
				t.Error("a grandchild's is not counted")
			}
			mark := th.Mark()
			th.Defer(func() { _ = th.Await(0, block) }) // a deferred call's
			th.RunDeferred(mark)
			if !th.Layer().AbandonCalls() {
				t.Error("a deferred call's is not counted")
			}
			if n := l.Stats().Calls; n != 3 {
				t.Errorf("%d functions run", n)
			}
		})
		mustRun(t, l)
	})
}

func TestFromChan(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		ch := make(chan int)
		c := loop.FromChan(ch)
		l.Go(func(th *loop.Thread) {
			next := func() (int, bool) {
				want(t, th.AwaitAll(time.Minute, c), nil)
				return c.Value()
			}
			if _, ok := c.Value(); ok {
				t.Error("a value before any came")
			}
			want(t, th.AwaitAll(0, c), loop.ErrDeadlineExceeded) // the helper receives from now on
			ch <- 1                                              // no thread waits: it is kept
			if v, ok := next(); v != 1 || !ok {
				t.Errorf("kept: %d, %v", v, ok)
			}
			if _, ok := c.Value(); ok {
				t.Error("a value twice")
			}
			for i := range 100 { // none is lost, none is early
				go func() { ch <- i }()
				for errors.Is(th.AwaitAll(time.Microsecond, c), os.ErrDeadlineExceeded) {
				}
				if v, ok := c.Value(); v != i || !ok {
					t.Fatalf("%d, %v; want %d", v, ok, i)
				}
			}
			_, err := th.AwaitAny(time.Minute, c, c)
			want(t, err, loop.ErrAwaited)

			// The thread that waited first ends, and closes the source. Another one is told.
			shared := loop.FromChan(make(chan int))
			waited, leave := new(loop.Promise[int]), new(loop.Promise[int])
			first := th.Go(func(th *loop.Thread) error {
				want(t, th.AwaitAll(0, shared), loop.ErrDeadlineExceeded)
				waited.Resolve(1)
				_, err := leave.Await(th, -1)
				return err
			})
			_, _ = waited.Await(th, -1)
			l.Go(func(*loop.Thread) { leave.Resolve(1) }) // when this thread waits
			want(t, th.AwaitAll(time.Minute, shared), nil)
			if _, ok := shared.Value(); ok {
				t.Error("a value of a source that has ended")
			}
			_, _ = first.End().Await(th, -1)
			if err := th.AwaitAll(time.Minute, shared); err == nil {
				t.Error("a wait for a source that has ended")
			}

			close(ch)
			for range 2 {
				if v, ok := next(); v != 0 || ok {
					t.Errorf("closed: %d, %v", v, ok)
				}
			}
		})
		mustRun(t, l)
	})
}

// The helper of a closed channel does not wait for its thread's end.
func TestHelperOfAClosedChannelEnds(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			before := runtime.NumGoroutine()
			for range 50 {
				ch := make(chan int)
				c := loop.FromChan(ch)
				want(t, th.AwaitAll(0, c), loop.ErrDeadlineExceeded)
				close(ch)
				want(t, th.AwaitAll(-1, c), nil)
			}
			for runtime.NumGoroutine() > before+10 { // those that have told are on their way out
				th.Yield()
			}
		})
		mustRun(t, l)
	})
}

func TestTimer(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, 2 * time.Millisecond} {
				began := time.Now()
				tm := th.After(d)
				want(t, th.AwaitAll(time.Minute, tm), nil)
				if took := time.Since(began); took < d {
					t.Errorf("%v: ready after %v", d, took)
				}
				want(t, th.AwaitAll(0, tm), nil) // it stays so
			}
			hour := th.After(time.Hour)
			_, err := th.AwaitAny(time.Minute, hour, hour)
			want(t, err, loop.ErrAwaited)
			th.Go(func(th *loop.Thread) error { hour.Reset(time.Millisecond); return nil }) // meanwhile
			began := time.Now()
			want(t, th.AwaitAll(time.Minute, hour), nil)
			if took := time.Since(began); took < time.Millisecond {
				t.Errorf("ready after %v", took)
			}
			first, second := th.After(time.Hour), th.After(3*time.Millisecond)
			if i, err := th.AwaitAny(-1, first, second); i != 1 || err != nil {
				t.Errorf("source %d, %v", i, err)
			}
			want(t, th.AwaitAll(-1), nil) // of nothing
		})
		mustRun(t, l)
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}

// TestNoWorker: a function whose turn does not come within the limit is told from one that takes
// too long, is counted, and is logged once for all that fare like it.
func TestNoWorker(t *testing.T) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		t.Run(h.String(), func(t *testing.T) {
			var log bytes.Buffer
			l := must.Get(loop.New(loop.Options{Handoff: h, Workers: 1, Logger: logtext.Logger(t, &log)}))(t)
			l.Go(func(th *loop.Thread) {
				release := make(chan struct{})
				err := th.Await(time.Millisecond, func(context.Context) error { <-release; return nil })
				if errors.Is(err, loop.ErrNoWorker) || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("one that takes too long: %v", err)
				}
				for range 3 {
					err := th.Await(time.Millisecond, func(context.Context) error {
						t.Error("it has run")
						return nil
					})
					if !errors.Is(err, loop.ErrNoWorker) || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("one that has no worker: %v", err)
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				bound := th.Layer().Bind(ctx)
				err = th.Await(-1, func(context.Context) error { return nil })
				if !errors.Is(err, loop.ErrNoWorker) || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("until the deadline of a context: %v", err)
				}
				bound.Release()
				cancel()
				waits := loop.Call(th, func() (int, error) { return 1, nil })
				if s := l.Stats(); s.Calls != 1 || s.Queued != 1 || s.NoWorker != 4 {
					t.Errorf("%+v", s)
				}
				close(release)
				if _, err := waits.Await(th, -1); err != nil {
					t.Error(err)
				}
			})
			mustRun(t, l)
			if n := strings.Count(log.String(), "no worker was free"); n != 1 ||
				!strings.Contains(log.String(), "workers=1 ") {
				t.Errorf("logged %d times:\n%s", n, log.String())
			}
		})
	}
}
