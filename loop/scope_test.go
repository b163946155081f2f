package loop_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func sleeper(err *error) func(*loop.Thread) error {
	return func(th *loop.Thread) error {
		*err = th.Sleep(time.Hour)
		return *err
	}
}

func TestScope(t *testing.T) {
	fail := func(*loop.Thread) error { return errBoom }
	var begun error
	for name, row := range map[string]struct {
		f      func(th *loop.Thread) error // in the scope, beside a thread that sleeps
		scope  error
		sleeps error
	}{
		"fails":   {fail, errBoom, loop.ErrCanceled},
		"cancels": {func(th *loop.Thread) error { th.Cancel(); return nil }, nil, loop.ErrCanceled},
		"child fails": {func(th *loop.Thread) error {
			th.Go(fail)
			return nil
		}, errBoom, loop.ErrCanceled},
		"child panics": {func(th *loop.Thread) error {
			th.Go(func(*loop.Thread) error { panic(errBoom) })
			return nil
		}, errBoom, loop.ErrCanceled},
		"grandchild fails": {func(th *loop.Thread) error {
			th.Go(func(th *loop.Thread) error { th.Go(fail); return nil })
			return nil
		}, errBoom, loop.ErrCanceled},
		"both fail": {func(th *loop.Thread) error {
			th.Go(fail)
			th.Yield()
			th.Yield()
			return os.ErrInvalid // the scope's is the function's own
		}, os.ErrInvalid, loop.ErrCanceled},
		"starts a canceled one": {func(th *loop.Thread) error {
			th.Cancel()
			th.Go(sleeper(&begun))
			return nil
		}, nil, loop.ErrCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(func(th *loop.Thread) {
					var sleeps, outer error
					th.Go(func(th *loop.Thread) error { outer = th.Sleep(time.Millisecond); return nil })
					err := th.Scope(func() error {
						th.Go(sleeper(&sleeps))
						th.Yield()
						return row.f(th)
					})
					want(t, err, row.scope)
					want(t, sleeps, row.sleeps)
					want(t, th.Join(), nil) // the outer one is not concerned
					want(t, outer, nil)
				})
				mustRun(t, l)
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}

func TestPanicInAScope(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var sleeps error
		l.Go(func(th *loop.Thread) {
			defer func() {
				if p := recover(); p != errBoom {
					t.Errorf("recovered %v", p)
				}
				want(t, sleeps, loop.ErrCanceled) // it has ended
				th.Go(func(*loop.Thread) error { return nil })
				want(t, th.Join(), nil)
			}()
			_ = th.Scope(func() error {
				th.Go(sleeper(&sleeps))
				th.Yield()
				panic(errBoom)
			})
		})
		mustRun(t, l)
	})
}

// Nothing outlives what has started it, deferred calls included.
func TestChildrenOfDeferredCalls(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			count := 0
			child := func(th *loop.Thread) error { th.Yield(); th.Yield(); count++; return nil }
			mark := th.Mark()
			th.Defer(func() { th.Go(child) }) // after the scope's end
			th.Go(child)
			th.Defer(func() { th.Go(child) }) // before
			th.RunDeferred(mark)
			if count != 3 {
				t.Errorf("%d of 3 have ended", count)
			}

			parent := l.Go(func(th *loop.Thread) {
				th.Defer(func() { th.Go(child) })
			})
			_, _ = parent.End().Await(th, -1)
			if count != 4 {
				t.Error("a thread has ended before one that its deferred call had started")
			}
		})
		mustRun(t, l)
	})
}

// A killed thread starts none.
func TestKilledThreadStartsNothing(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		started := false
		child := func(*loop.Thread) error { started = true; return nil }
		l.Go(func(th *loop.Thread) {
			th.Defer(func() { th.Go(child) })
			defer th.Go(child)
			l.Stop(0)
			_ = th.Scope(func() error {
				defer th.Go(child)
				return th.Sleep(time.Hour)
			})
		})
		mustRun(t, l)
		if left := loop.Left(l); left != nil || started {
			t.Errorf("left with the loop: %v; started: %v", left, started)
		}
	})
}

// Killed members cancel, and end before, those that they have started; and before their owner.
func TestKillGoesFromTheLeavesToTheRoot(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var order string
		entered := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			th.Defer(func() { order += "root" })
			_ = th.Scope(func() error {
				th.Go(func(th *loop.Thread) error {
					th.Defer(func() { order += "child " })
					th.Go(func(th *loop.Thread) error {
						th.Defer(func() { order += "grandchild " })
						close(entered)
						return th.Sleep(time.Hour)
					})
					return nil
				})
				return nil
			})
		})
		wait := start(t, l)
		<-entered
		l.Stop(0)
		wait()
		if order != "grandchild child root" {
			t.Errorf("order %s", order)
		}
	})
}

// The client's leaving reaches every thread below, even if those in between keep waiting.
func TestLeavingReachesAllThreads(t *testing.T) {
	for name, leave := range leavings {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				entered := make(chan struct{})
				c := serve(t, l, &task{run: func(b *task) coro.Code {
					_, _ = unix.Read(b.FD(), make([]byte, 1))
					b.KeepWaiting(true)
					var kept, waiting, below error
					over := new(loop.Promise[int])
					b.Go(func(th *loop.Thread) error { // as its parent
						_, kept = over.Await(th, -1)
						if !th.Gone() {
							t.Error("a thread that keeps waiting does not know that the client is gone")
						}
						return nil
					})
					b.Go(func(th *loop.Thread) error {
						th.KeepWaiting(false)
						th.Go(func(th *loop.Thread) error { below = th.Sleep(time.Hour); return nil })
						waiting = th.Sleep(time.Hour)
						_ = th.Join()
						over.Resolve(1)
						return nil
					})
					close(entered)
					want(t, b.Join(), nil)
					want(t, kept, nil)
					want(t, waiting, loop.ErrClientGone)
					want(t, below, loop.ErrClientGone)
					b.KeepWaiting(false)
					var late error
					b.Go(sleeper(&late))
					want(t, b.Join(), loop.ErrClientGone) // a child's
					want(t, late, loop.ErrClientGone)
					return coro.Abort
				}})
				_, _ = c.Write([]byte("x"))
				wait := start(t, l)
				<-entered
				on(t, l, func() {})
				leave(c)
				wait()
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}

// Join under its own faults.
func TestJoin(t *testing.T) {
	for name, leave := range leavings {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				entered := make(chan struct{})
				c := serve(t, l, &task{run: func(b *task) coro.Code {
					_, _ = unix.Read(b.FD(), make([]byte, 1))
					var first, second error
					b.Go(sleeper(&first))
					b.Go(sleeper(&second))
					close(entered)
					want(t, b.Join(), loop.ErrClientGone)
					want(t, first, loop.ErrClientGone)
					want(t, second, loop.ErrClientGone)
					return coro.Abort
				}})
				_, _ = c.Write([]byte("x"))
				wait := start(t, l)
				<-entered
				on(t, l, func() {})
				leave(c)
				wait()
			})
		})
	}
	t.Run("canceled", func(t *testing.T) {
		run(t, func(t *testing.T, l *loop.Loop) {
			l.Go(func(th *loop.Thread) {
				var sleeps, joins error
				th.Go(func(th *loop.Thread) error {
					th.Go(sleeper(&sleeps))
					joins = th.Join()
					return nil
				})
				th.Yield()
				th.Yield()
				th.Cancel()
				want(t, th.Join(), nil)
				want(t, joins, nil)
				want(t, sleeps, loop.ErrCanceled)
			})
			mustRun(t, l)
		})
	})
}

// A thread that ignores the errors of its waits gives way each time, and is ended.
func TestWaitsThatAreNotHeeded(t *testing.T) {
	deaf := map[string]func(th *loop.Thread, f *things) error{
		"Sleep":     func(th *loop.Thread, _ *things) error { return th.Sleep(time.Hour) },
		"AwaitRead": func(th *loop.Thread, f *things) error { return th.AwaitRead(-1, f.r) },
		"ReadFD": func(th *loop.Thread, f *things) error {
			_, err := th.ReadFD(-1, f.r, make([]byte, 1))
			return err
		},
		"AwaitAny": func(th *loop.Thread, f *things) error {
			_, err := th.AwaitAny(-1, f.sub, loop.Readable(f.r))
			return err
		},
		"AwaitAll": func(th *loop.Thread, f *things) error { return th.AwaitAll(-1, f.sub, f.channed) },
		"Await":    func(th *loop.Thread, f *things) error { return th.Await(-1, f.block) },
		"Promise.Await": func(th *loop.Thread, f *things) error {
			_, err := f.promise.Await(th, -1)
			return err
		},
	}
	for name, wait := range deaf {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				f := newThings(t, l)
				n, others, deferred := 0, 0, false
				var b *task
				b = &task{run: func(*task) coro.Code {
					_, _ = unix.Read(b.FD(), make([]byte, 1))
					b.Defer(func() { deferred = true })
					l.Go(func(th *loop.Thread) {
						for !deferred {
							others++
							th.Yield()
						}
					})
					for {
						if wait(&b.Thread, f) == nil {
							t.Error("no error")
							return coro.Abort
						}
						n++
					}
				}}
				c := serve(t, l, b)
				_, _ = c.Write([]byte("x"))
				_ = c.CloseWrite()
				mustRun(t, l)
				if !deferred || n < loop.MaxRefusals || n > loop.MaxRefusals+1 {
					t.Errorf("%d waits; deferred calls ran: %v", n, deferred)
				}
				if others < n/2 {
					t.Errorf("another thread has run only %d times", others)
				}
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}

// Refusals are counted for one request, not for all that a client has sent before it left.
func TestRefusalsOfManyRequests(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		n := 0
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			for !b.Gone() {
				_ = b.Sleep(time.Hour)
			}
			for range 2 * loop.MaxRefusals {
				mark := b.Mark()
				want(t, b.Sleep(time.Hour), loop.ErrClientGone)
				b.RunDeferred(mark)
				n++
			}
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		_ = c.CloseWrite()
		mustRun(t, l)
		if n != 2*loop.MaxRefusals {
			t.Errorf("ended after %d", n)
		}
	})
}

// A wait on another thread's behalf would stop the loop; it panics.
func TestWaitOnAnotherThreadsBehalf(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(parent *loop.Thread) {
			parent.Go(func(*loop.Thread) error { return parent.Sleep(time.Hour) })
			var pe *loop.PanicError
			if err := parent.Join(); !errors.As(err, &pe) {
				t.Errorf("error %v", err)
			}
			want(t, parent.Sleep(0), nil)
		})
		mustRun(t, l)
	})
}

// Who has started threads waits in vain for what they were to bring once one of them has failed.
func TestAFailureEndsTheWaitsOfItsParent(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		boom := errors.New("boom")
		fails := func(th *loop.Thread) error {
			_ = th.Sleep(time.Millisecond)
			return boom
		}
		var own, nested, sibling, after error
		var scope error
		l.Go(func(th *loop.Thread) {
			scope = th.Scope(func() error {
				th.Go(fails)
				return th.Scope(func() error {
					th.Go(func(th *loop.Thread) error {
						nested = th.Sleep(time.Hour)
						return nested
					})
					_, own = new(loop.Promise[int]).Await(th, time.Hour)
					sibling = th.Sleep(time.Hour) // the scope stays failed until it is joined
					return own
				})
			})
			after = th.Sleep(0)
		})
		mustRun(t, l)
		for what, err := range map[string]error{"own": own, "nested": nested, "sibling": sibling} {
			if !errors.Is(err, loop.ErrCanceled) {
				t.Errorf("%s wait: %v", what, err)
			}
		}
		if scope != boom || after != nil {
			t.Errorf("scope: %v, wait after it: %v", scope, after)
		}
	})
}

func TestAFailureEndsAWaitForTheOwnSocketAmongOthers(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var err error
		var joined error
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			b.Go(func(th *loop.Thread) error { return os.ErrNotExist })
			_, err = b.AwaitAny(time.Hour, loop.Readable(b.FD()), new(loop.Promise[int]))
			joined = b.Join()
			return coro.Abort
		}})
		wait := start(t, l)
		_, _ = c.Write([]byte("x"))
		wait()
		if !errors.Is(err, loop.ErrCanceled) || joined != os.ErrNotExist {
			t.Errorf("wait: %v, joined: %v", err, joined)
		}
	})
}
