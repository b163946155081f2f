package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Promise is a result that is still to come: a value or an error, set once. It is a Source, for any
// number of threads on any loops. Any goroutine may call its methods, except Await and those of a
// Source. The zero Promise is pending. It must not be copied.
type Promise[T any] struct {
	mu      sync.Mutex
	settled atomic.Bool // value and err do not change any more
	value   T
	err     error
	waiters waiters
	cancel  func(from *Loop) // ends what would settle it, for a thread of from; nil: nothing can
}

// Resolve settles the promise with a value. It reports false, and does nothing, if the promise was
// settled before.
func (p *Promise[T]) Resolve(value T) bool { return p.settle(value, nil, nil) }

// ResolveOn is Resolve by a thread of l, which is the running one. Threads of l that wait for the
// promise go on after those of the present turn, without a poll for events in between, as with
// WakeThisTurn. It is for what one thread hands to another, as a slot that it gives back.
func (p *Promise[T]) ResolveOn(l *Loop, value T) bool { return p.settle(value, nil, l) }

// Reject settles the promise with an error. It reports false, and does nothing, if the promise was
// settled before.
func (p *Promise[T]) Reject(err error) bool {
	var none T
	return p.settle(none, err, nil)
}

// settle settles the promise. The caller is on the loop on, unless that is nil.
func (p *Promise[T]) settle(value T, err error, on *Loop) bool {
	if on != nil {
		on.Layer().Check()
	}
	p.mu.Lock()
	if p.settled.Load() {
		p.mu.Unlock()
		return false
	}
	p.value, p.err = value, err
	p.settled.Store(true)
	first := p.waiters.first
	p.waiters = waiters{}
	p.mu.Unlock()
	for w := first; w != nil; w = w.next {
		if t := w.thread; t.loop == on {
			t.notifyIn(&on.turn, byNotify)
		} else {
			Notify(t)
		}
	}
	return true
}

// Value returns what the promise was settled with, or ErrPending if it is not settled.
func (p *Promise[T]) Value() (T, error) {
	if !p.settled.Load() {
		var none T
		return none, ErrPending
	}
	return p.value, p.err
}

// Await waits until the promise is settled, for d at most; negative: without limit. t is the
// calling thread. The error is the promise's own, or one of AwaitAny's.
func (p *Promise[T]) Await(t *Thread, d time.Duration) (T, error) {
	if _, err := t.AwaitAny(d, p); err != nil {
		var none T
		return none, err
	}
	return p.value, p.err
}

// Watch implements Source.
func (p *Promise[T]) Watch(t *Thread) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled.Load() {
		p.waiters.add(t)
	}
	return nil
}

// Ready implements Source.
func (p *Promise[T]) Ready() bool { return p.settled.Load() }

// Unwatch implements Source.
func (p *Promise[T]) Unwatch(t *Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters.remove(t)
}

// Go starts a green thread that runs f, within t's scope as t.Go does, and promises what f returns:
// a value, or an error, or a panic as a *PanicError. The promise is settled when the thread and
// those that it has started have ended. The error goes to the promise only, and does not cancel the
// other threads of the scope.
func Go[T any](t *Thread, f func(t *Thread) (T, error)) *Promise[T] {
	p := new(Promise[T])
	var value T
	member := t.start(&memberTask{
		f: func(t *Thread) (err error) {
			value, err = f(t)
			return err
		},
		settle: func(err error) { p.settle(value, err, nil) },
	})
	p.cancel = func(from *Loop) { member.loop.runOn(from, member.cancel) }
	return p
}

// Call runs f on a goroutine of its own, off the loop, and promises what f returns: a value, or an
// error, or a panic as a *PanicError. At most Options.Workers functions of a loop run at a time,
// and others wait for their turn. Those that have not begun when t runs its deferred calls never
// run, and their error is ErrCanceled.
//
// f may block. It must not use t, nor what belongs to t, such as a Request; it may use copies made
// before. It cannot be stopped. If it still runs when its request is over, it keeps the Request and
// the Response, which are not used for another request.
func Call[T any](t *Thread, f func() (T, error)) *Promise[T] {
	return CallUnless(t, nil, nil, f)
}

// CallUnless is Call for a function that may come too late. If f has to wait for its turn, the loop
// calls late when it is f's turn; if late returns an error, f never runs, and that is the error of
// the promise. late must not block. Collect and First call cancel, unless it is nil, when the
// result is not wanted any more; it must be safe from any goroutine.
func CallUnless[T any](t *Thread, late func() error, cancel func(),
	f func() (T, error)) *Promise[T] {
	c, p := newCall(t, f)
	c.unless = late
	l := t.loop
	p.cancel = func(from *Loop) {
		if cancel != nil {
			cancel()
		}
		l.runOn(from, func() { l.withdraw(c) })
	}
	t.submit(c)
	t.listCall(c)
	return p
}

// Await runs f, which may block, off the loop, as Call does, and waits for its result, for d at
// most; negative: without limit. t is the calling thread. f's context ends when the wait does,
// whatever ends it, and at the limit.
//
// The error is f's, or its panic as a *PanicError, or one of AwaitAny's, and then the result is the
// zero value. It is ErrDeadlineExceeded also if f has seen the end of its context before the thread
// has. If the wait returns before f has begun, f never runs; if that is because d has passed, the
// error is ErrNoWorker.
func Await[T any](t *Thread, d time.Duration, f func(ctx context.Context) (T, error)) (
	value T, err error) {
	t.mustRun() // f may end before the wait begins
	t.flush()   // before f may hold what belongs to the request
	if err := t.refused(); err != nil {
		return value, err
	}
	ctx, end := context.WithCancelCause(context.Background())
	stop := context.CancelFunc(func() {})
	late := ErrDeadlineExceeded
	if by, ok := t.Deadline(); ok && (d < 0 || time.Until(by) < d) {
		ctx, stop = context.WithDeadline(ctx, by)
		late = ErrBudget
	} else if d >= 0 {
		ctx, stop = context.WithTimeout(ctx, d)
	}
	c, p := newCall(t, func() (T, error) { return f(ctx) })
	defer func() { // also when the thread is killed
		end(err)
		stop()
		t.loop.withdraw(c)
	}()
	t.submit(c)
	value, err = p.Await(t, d)
	switch {
	case errors.Is(err, ErrDeadlineExceeded) && c.queued.Waits():
		t.loop.workers.miss(t.loop)
		if timedOut(err) {
			err = ErrNoWorker
		} else { // the deadline of a context that t is bound to
			err = fmt.Errorf("%w: %w", ErrNoWorker, err)
		}
	case ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", late, err)
	}
	return value, err
}

// Await runs f, which may block, off the loop, and waits for it, for d at most; negative: without
// limit. It is the function Await for an f without a result.
func (t *Thread) Await(d time.Duration, f func(ctx context.Context) error) error {
	_, err := Await(t, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

func newCall[T any](t *Thread, f func() (T, error)) (*call, *Promise[T]) {
	p := new(Promise[T])
	c := &call{drop: func(err error) { p.Reject(err) }}
	c.run = func() {
		err := ErrExited
		var value T
		defer func() {
			c.group.running.Add(-1) // before p is settled: the waiting thread relies on it
			p.settle(value, err, nil)
		}()
		err = func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = &PanicError{Value: p, Stack: debug.Stack()}
				}
			}()
			value, err = f()
			return err
		}()
	}
	return c, p
}
