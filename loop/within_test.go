package loop_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// boundWaits are those that a budget ends, each of which would take an hour or longer.
func boundWaits(t *testing.T) map[string]func(th *loop.Thread) error {
	pipe := func(t *testing.T) (r, w int) {
		var fds [2]int
		must.Do(t, unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
		t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
		return fds[0], fds[1]
	}
	fd, _ := pipe(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var locked loop.Mutex
	locked.TryLock()
	return map[string]func(th *loop.Thread) error{
		"Sleep": func(th *loop.Thread) error { return th.Sleep(time.Hour) },
		"AwaitAny": func(th *loop.Thread) error {
			_, err := th.AwaitAny(-1, new(loop.Promise[int]), th.After(time.Hour))
			return err
		},
		"AwaitAll": func(th *loop.Thread) error { return th.AwaitAll(-1, new(loop.Promise[int])) },
		"Promise": func(th *loop.Thread) error {
			_, err := new(loop.Promise[int]).Await(th, time.Hour)
			return err
		},
		"AwaitRead": func(th *loop.Thread) error { return th.AwaitRead(-1, fd) },
		"ReadFD": func(th *loop.Thread) error {
			_, err := th.ReadFD(time.Hour, fd, make([]byte, 1))
			return err
		},
		"Mutex": func(th *loop.Thread) error { return locked.Lock(th, -1) },
		"Await": func(th *loop.Thread) error {
			return th.Await(-1, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		},
		"Await of one that ignores its context": func(th *loop.Thread) error {
			return th.Await(time.Hour, func(ctx context.Context) error {
				<-release
				return nil
			})
		},
		"member": func(th *loop.Thread) (err error) {
			th.Go(func(th *loop.Thread) error {
				err = th.Sleep(time.Hour)
				return nil
			})
			return errors.Join(th.Join(), err)
		},
		"nested": func(th *loop.Thread) error {
			return th.Within(time.Hour, func() error { return th.Sleep(time.Hour) })
		},
		"nested, without limit": func(th *loop.Thread) error {
			return th.Within(-1, func() error { return th.Sleep(time.Hour) })
		},
	}
}

// within runs f on a thread within the budget d.
func within(t *testing.T, d time.Duration, f func(th *loop.Thread) error) (err error) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			err = th.Within(d, func() error { return f(th) })
			if _, ok := th.Deadline(); ok {
				t.Error("there is a deadline behind Within")
			}
			must.Do(t, th.Sleep(0))
		})
		mustRun(t, l)
	})
	return err
}

// A budget ends each kind of wait, and refuses each that begins when it is spent.
func TestWithin(t *testing.T) {
	for name, wait := range boundWaits(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, d := range []time.Duration{0, 10 * time.Millisecond} {
				if err := within(t, d, wait); !errors.Is(err, loop.ErrBudget) &&
					!errors.Is(err, loop.ErrNoWorker) || !errors.Is(err, os.ErrDeadlineExceeded) ||
					!errors.Is(err, context.DeadlineExceeded) ||
					!errors.Is(err, loop.ErrDeadlineExceeded) {
					t.Errorf("within %v: %v", d, err)
				}
			}
		})
	}
}

// What is there is taken, however late, and a wait's own limit is still its own.
func TestWithinLeavesWhatIsReady(t *testing.T) {
	settled := new(loop.Promise[int])
	settled.Resolve(1)
	for name, row := range map[string]struct {
		d    time.Duration
		wait func(th *loop.Thread) error
		want error
	}{
		"ready": {0, func(th *loop.Thread) error {
			_, err := settled.Await(th, -1)
			return err
		}, nil},
		"Join": {0, func(th *loop.Thread) error {
			ran := false
			th.Go(func(th *loop.Thread) error { th.Yield(); ran = true; return nil })
			if err := th.Join(); err != nil || !ran {
				return errBoom
			}
			return nil
		}, nil},
		"a short sleep": {time.Hour, func(th *loop.Thread) error {
			return th.Sleep(time.Millisecond)
		}, nil},
		"a limit of its own": {time.Hour, func(th *loop.Thread) error {
			_, err := th.AwaitAny(time.Millisecond, new(loop.Promise[int]))
			return err
		}, loop.ErrDeadlineExceeded},
		"a longer one within": {time.Millisecond, func(th *loop.Thread) error {
			before, _ := th.Deadline()
			return th.Within(time.Hour, func() error {
				if by, ok := th.Deadline(); !ok || !by.Equal(before) {
					t.Errorf("the deadline is %v, not %v", by, before)
				}
				return nil
			})
		}, nil},
		"a shorter one within": {time.Hour, func(th *loop.Thread) error {
			if err := th.Within(0, func() error { return th.Sleep(1) }); err != loop.ErrBudget {
				t.Errorf("within: %v", err)
			}
			return th.Sleep(time.Millisecond)
		}, nil},
		"set aside": {0, func(th *loop.Thread) error {
			was := th.Layer().SetBudget(0)
			err := th.Sleep(time.Millisecond)
			th.Layer().SetBudget(was)
			if th.Sleep(1) != loop.ErrBudget {
				t.Error("the budget is not set back")
			}
			return err
		}, nil},
		"f's own error": {-1, func(*loop.Thread) error { return errBoom }, errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			if err := within(t, row.d, row.wait); err != row.want {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}

// A thread may spend any number of budgets, one after the other, but not go on for ever in one.
func TestSpentBudgets(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		whole, left := false, false
		l.Go(func(th *loop.Thread) {
			for range 2 * loop.MaxRefusals {
				_ = th.Within(0, func() error { return th.Sleep(1) })
			}
			whole = true
			_ = th.Within(0, func() error {
				for range 2 * loop.MaxRefusals {
					_ = th.Within(0, func() error { return th.Sleep(1) })
				}
				left = true
				return nil
			})
		})
		mustRun(t, l)
		if !whole || left {
			t.Errorf("budgets one after the other: %v, one for ever: %v", whole, left)
		}
	})
}

// The function's context has the deadline that is earlier.
func TestContextWithin(t *testing.T) {
	for _, row := range []struct{ limit, budget, want time.Duration }{
		{time.Hour, 2 * time.Hour, time.Hour},
		{2 * time.Hour, time.Hour, time.Hour},
		{-1, time.Hour, time.Hour},
		{time.Hour, -1, time.Hour},
	} {
		_ = within(t, row.budget, func(th *loop.Thread) error {
			return th.Await(row.limit, func(ctx context.Context) error {
				by, ok := ctx.Deadline()
				if left := time.Until(by); !ok || left > row.want+time.Minute || left < row.want-time.Minute {
					t.Errorf("limit %v, budget %v: %v is left", row.limit, row.budget, left)
				}
				return nil
			})
		})
	}
}
