package loop_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// after promises i, or err, when d has passed.
func after(th *loop.Thread, d time.Duration, i int, err error) *loop.Promise[int] {
	return loop.Go(th, func(th *loop.Thread) (int, error) {
		if e := th.Sleep(d); e != nil {
			return 0, e
		}
		return i, err
	})
}

func TestFirst(t *testing.T) {
	settled := func(i int) *loop.Promise[int] {
		p := new(loop.Promise[int])
		p.Resolve(i)
		return p
	}
	other := errors.New("other")
	const now, soon, never = 0, time.Millisecond, time.Hour
	for name, row := range map[string]struct {
		limit  time.Duration
		begin  func(th *loop.Thread) []*loop.Promise[int]
		want   int
		errs   []error // that the error is; nil: there is none
		others []error // that the error is not
	}{
		"the fastest": {-1, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, never, 1, nil), after(th, soon, 2, nil)}
		}, 2, nil, nil},
		"of several, the first in order": {-1, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{new(loop.Promise[int]), settled(2), settled(3)}
		}, 2, nil, nil},
		"the first good one": {-1, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, now, 1, errBoom), after(th, now, 2, other),
				after(th, soon, 3, nil), after(th, never, 4, nil)}
		}, 3, nil, nil},
		"a function off the loop": {-1, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, never, 1, nil),
				loop.Call(th, func() (int, error) { return 2, nil })}
		}, 2, nil, nil},
		"none is good": {-1, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, soon, 1, errBoom), after(th, now, 2, other)}
		}, 0, []error{errBoom, other}, []error{os.ErrDeadlineExceeded}},
		"none in time": {soon, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, now, 1, errBoom), after(th, never, 2, nil)}
		}, 0, []error{errBoom, loop.ErrDeadlineExceeded}, []error{loop.ErrBudget}},
		"none at once": {0, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{after(th, never, 1, nil)}
		}, 0, []error{loop.ErrDeadlineExceeded}, nil},
		"no wait is needed": {0, func(th *loop.Thread) []*loop.Promise[int] {
			return []*loop.Promise[int]{new(loop.Promise[int]), settled(2)}
		}, 2, nil, nil},
		"of none": {-1, func(th *loop.Thread) []*loop.Promise[int] { return nil }, 0,
			[]error{}, []error{os.ErrDeadlineExceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(func(th *loop.Thread) {
					got, err := loop.First(th, row.limit, row.begin(th)...)
					if got != row.want || (err == nil) != (row.errs == nil) {
						t.Errorf("got %d, %v", got, err)
					}
					for _, want := range row.errs {
						if !errors.Is(err, want) {
							t.Errorf("%v is not %v", err, want)
						}
					}
					for _, no := range row.others {
						if errors.Is(err, no) {
							t.Errorf("%v is %v", err, no)
						}
					}
				})
				mustRun(t, l) // which does not wait for an hour: all that was begun has ended
			})
		})
	}
}

// However Collect and First return, what still runs is canceled, with the threads that it has
// started, and nothing else.
func TestTheRestIsCanceled(t *testing.T) {
	returns := map[string]func(th *loop.Thread, late, done *loop.Promise[int]){
		"Collect, the limit": func(th *loop.Thread, late, done *loop.Promise[int]) {
			loop.Collect(th, time.Millisecond, late, done)
		},
		"First, a value": func(th *loop.Thread, late, done *loop.Promise[int]) {
			must.Get(loop.First(th, -1, late, done))(t)
		},
		"First, the limit": func(th *loop.Thread, late, _ *loop.Promise[int]) {
			loop.First(th, time.Millisecond, late)
		},
		"Collect, a budget": func(th *loop.Thread, late, done *loop.Promise[int]) {
			_ = th.Within(time.Millisecond, func() error {
				if _, errs := loop.Collect(th, -1, late, done); errs[0] != loop.ErrBudget {
					t.Error(errs)
				}
				return nil
			})
		},
	}
	for name, f := range returns {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				var inner, outer, beside error
				l.Go(func(th *loop.Thread) {
					th.Go(func(th *loop.Thread) error {
						beside = th.Sleep(10 * time.Millisecond)
						return nil
					})
					late := loop.Go(th, func(th *loop.Thread) (int, error) {
						th.Go(func(th *loop.Thread) error {
							inner = th.Sleep(time.Hour)
							return nil
						})
						outer = th.Sleep(time.Hour)
						return 0, outer
					})
					f(th, late, after(th, 0, 1, nil))
					if _, err := late.Await(th, -1); err != loop.ErrCanceled {
						t.Errorf("its promise: %v", err)
					}
				})
				mustRun(t, l)
				if inner != loop.ErrCanceled || outer != loop.ErrCanceled || beside != nil {
					t.Errorf("its thread: %v, the one within: %v, another: %v", outer, inner, beside)
				}
			})
		})
	}
}

// A function that waits for a worker does not begin any more, and the one that runs holds up
// nothing.
func TestCallsAreCanceled(t *testing.T) {
	l := must.Get(loop.New(loop.Options{Workers: 1}))(t)
	release := make(chan bool)
	l.Go(func(th *loop.Thread) {
		runs := loop.Call(th, func() (int, error) { <-release; return 1, nil })
		queued := loop.Call(th, func() (int, error) { t.Error("it runs"); return 2, nil })
		_, errs := loop.Collect(th, time.Millisecond, runs, queued)
		if errs[0] != loop.ErrDeadlineExceeded || errs[1] != loop.ErrDeadlineExceeded {
			t.Error(errs)
		}
		if _, err := queued.Value(); err != loop.ErrCanceled {
			t.Errorf("the one that waits: %v", err)
		}
		close(release)
		if i, err := runs.Await(th, -1); i != 1 || err != nil {
			t.Errorf("the one that runs: %d, %v", i, err)
		}
	})
	mustRun(t, l)
}

// What runs on another loop is canceled there.
func TestTheRestOnAnotherLoop(t *testing.T) {
	here, there := must.Get(loop.New(loop.Options{}))(t), must.Get(loop.New(loop.Options{}))(t)
	begun := make(chan *loop.Promise[int], 1)
	there.Go(func(th *loop.Thread) {
		p := after(th, time.Hour, 1, nil)
		begun <- p
		if _, err := p.Await(th, -1); err != loop.ErrCanceled {
			t.Error(err)
		}
	})
	here.Go(func(th *loop.Thread) {
		if _, err := loop.First(th, time.Millisecond, <-begun); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
	wait := start(t, there)
	defer wait()
	mustRun(t, here)
}
