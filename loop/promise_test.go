package loop_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

var errBoom = errors.New("boom")

// One promise, waiters on several loops, and settlers of which one is the first.
func TestPromiseIsSettledOnceForAll(t *testing.T) {
	const loops, waiters, settlers, rounds = 3, 20, 8, 20
	var running sync.WaitGroup
	promises := make([]*loop.Promise[int], rounds)
	for i := range promises {
		promises[i] = new(loop.Promise[int])
	}
	var got [rounds]sync.Map
	var waiting atomic.Int32
	for i := range loops {
		l := must.Get(loop.New(loop.Options{Handoff: coro.Handoff(i % 2)}))(t)
		for w := range waiters {
			l.Go(func(th *loop.Thread) {
				waiting.Add(1)
				for round, p := range promises {
					for w%3 == 0 { // some do not wait in one go
						_, err := p.Await(th, time.Microsecond)
						if !errors.Is(err, os.ErrDeadlineExceeded) {
							break
						}
					}
					v, err := p.Await(th, -1)
					if err != nil {
						v = -1
						if err != errBoom {
							t.Error(err)
						}
					}
					got[round].Store(v, true)
				}
			})
		}
		running.Go(func() {
			mustRun(t, l)
			if left := loop.Left(l); left != nil {
				t.Errorf("left with the loop: %v", left)
			}
		})
	}
	for waiting.Load() < loops*waiters {
		runtime.Gosched()
	}
	for round, p := range promises {
		if _, err := p.Value(); err != loop.ErrPending {
			t.Errorf("before: %v", err)
		}
		var first atomic.Int32
		var settling sync.WaitGroup
		for s := range settlers {
			settling.Go(func() {
				if s%2 == 0 && p.Resolve(s) || s%2 == 1 && p.Reject(errBoom) {
					first.Add(1)
				}
			})
		}
		settling.Wait()
		if n := first.Load(); n != 1 {
			t.Errorf("%d were first", n)
		}
		want, err := p.Value()
		if err != nil {
			want = -1
		}
		got[round].Store(want, true)
	}
	running.Wait()
	for round := range got {
		n := 0
		got[round].Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("round %d: %d results", round, n)
		}
	}
}

func TestGoPromisesWhatTheThreadEndsWith(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			v, err := loop.Go(th, func(*loop.Thread) (string, error) { return "value", nil }).Await(th, -1)
			if v != "value" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			_, err = loop.Go(th, func(*loop.Thread) (string, error) { return "", errBoom }).Await(th, -1)
			want(t, err, errBoom)
			_, err = loop.Go(th, func(*loop.Thread) (string, error) { panic(errBoom) }).Await(th, -1)
			want(t, err, errBoom)
			var pe *loop.PanicError
			if !errors.As(err, &pe) || len(pe.Stack) == 0 {
				t.Errorf("panic: %v", err)
			}
			_, err = loop.Go(th, func(*loop.Thread) (string, error) {
				runtime.Goexit()
				return "", nil
			}).Await(th, -1)
			want(t, err, loop.ErrExited)
			want(t, th.Join(), nil) // none of these is the scope's

			// A child of the promised thread: waited for, and its error is the promise's.
			ended := false
			_, err = loop.Go(th, func(th *loop.Thread) (string, error) {
				th.Go(func(th *loop.Thread) error {
					th.Yield()
					th.Yield()
					ended = true
					return errBoom
				})
				return "value", nil
			}).Await(th, -1)
			want(t, err, errBoom)
			if !ended {
				t.Error("the promise was kept before the thread's children had ended")
			}
			want(t, th.Join(), nil)

			// If the function fails, its children are canceled.
			var child error
			_, err = loop.Go(th, func(th *loop.Thread) (string, error) {
				th.Go(func(th *loop.Thread) error { child = th.Sleep(time.Hour); return nil })
				th.Yield()
				return "", errBoom
			}).Await(th, -1)
			want(t, err, errBoom)
			want(t, child, loop.ErrCanceled)
		})
		mustRun(t, l)
	})
}

// A thread that is killed settles its promise all the same, in whichever state it was.
func TestPromiseOfAKilledThread(t *testing.T) {
	runPanicking(t, func(t *testing.T, l *loop.Loop) {
		var waiting, queued *loop.Promise[int]
		var detached, panicked *loop.Promise[struct{}]
		entered := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			detached = l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) }).End()
			panicked = l.Go(func(*loop.Thread) { panic(errBoom) }).End()
			waiting = loop.Go(th, func(th *loop.Thread) (int, error) { return 1, th.Sleep(time.Hour) })
			th.Yield()
			th.Yield()
			l.Stop(0)
			close(entered)
			for { // until Stop takes effect, there is one that has not begun
				queued = loop.Go(th, func(th *loop.Thread) (int, error) { return 1, th.Sleep(time.Hour) })
				th.Yield()
			}
		})
		mustRun(t, l)
		for name, p := range map[string]*loop.Promise[int]{"waiting": waiting, "queued": queued} {
			if _, err := p.Value(); !errors.Is(err, loop.ErrCanceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := detached.Value()
		want(t, err, loop.ErrCanceled)
		_, err = panicked.Value()
		want(t, err, errBoom)
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}

func TestEndOfAThread(t *testing.T) {
	runPanicking(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			for name, row := range map[string]struct {
				f    func(*loop.Thread) error
				want error
			}{
				"nil":    {func(*loop.Thread) error { return nil }, nil},
				"error":  {func(*loop.Thread) error { return errBoom }, errBoom},
				"panic":  {func(*loop.Thread) error { panic(errBoom) }, errBoom},
				"cancel": {func(th *loop.Thread) error { return th.Sleep(time.Hour) }, loop.ErrCanceled},
				"panic in a deferred call": {func(th *loop.Thread) error {
					th.Defer(func() { panic(errBoom) })
					return nil
				}, errBoom},
			} {
				child := th.Go(row.f)
				end := child.End()
				if name == "cancel" {
					th.Cancel()
				}
				_, err := end.Await(th, time.Minute)
				if !errors.Is(err, row.want) {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := child.End().Value(); !errors.Is(err, row.want) { // after the end
					t.Errorf("%s, asked for later: %v", name, err)
				}
				if err := th.Join(); row.want != loop.ErrCanceled && !errors.Is(err, row.want) {
					t.Errorf("%s: Join: %v", name, err)
				}
			}
			exited := l.Go(func(*loop.Thread) { runtime.Goexit() })
			_, err := exited.End().Await(th, -1)
			want(t, err, loop.ErrExited)
		})
		mustRun(t, l)
	})
}

// TestCollect: the values in the order given, the first error in that order, and the errors
// of the wait.
func TestCollect(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			later := func(i int, err error) *loop.Promise[int] {
				return loop.Go(th, func(th *loop.Thread) (int, error) {
					th.Sleep(time.Duration(5-i) * time.Millisecond)
					return i, err
				})
			}
			if got, errs := loop.Collect[int](th, 0); len(got)+len(errs) != 0 {
				t.Error(got, errs)
			}
			got, errs := loop.Collect(th, -1, later(1, nil), later(2, nil), later(3, nil))
			if !slices.Equal(got, []int{1, 2, 3}) || errors.Join(errs...) != nil {
				t.Error(got, errs)
			}
			other := errors.New("other")
			got, errs = loop.Collect(th, -1, later(1, nil), later(2, errBoom), later(3, other))
			if !slices.Equal(got, []int{1, 2, 3}) || !slices.Equal(errs, []error{nil, errBoom, other}) {
				t.Error(got, errs)
			}
			done, pending := new(loop.Promise[int]), new(loop.Promise[int])
			done.Resolve(7)
			got, errs = loop.Collect(th, time.Millisecond, pending, done)
			if !slices.Equal(got, []int{0, 7}) ||
				!slices.Equal(errs, []error{loop.ErrDeadlineExceeded, nil}) {
				t.Error(got, errs)
			}
		})
		mustRun(t, l)
	})
}
