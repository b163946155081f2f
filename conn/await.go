package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lwango/lwango/loop"
)

// Await runs f, which may block, on one of the loop's workers off the loop, and waits for its
// result, at most d; negative: without limit. The request's own thread calls it.
//
// It is for calls of libraries that take a context: f's ends at the limit and when Await returns,
// for whatever reason. So it also ends when the client leaves (unless the request has chosen
// KeepWaiting), and when the server's stop cuts the request. It has the values of Request.Context.
//
// The error is f's, its panic as a *loop.PanicError, or that of a wait that has ended early:
// loop.ErrDeadlineExceeded, also if f has seen that before the thread has; loop.ErrNoWorker, which
// is one too, if f never ran; loop.ErrClientGone; loop.ErrCanceled. If the request is over, it is
// ErrComplete.
//
// After a wait that has ended early, f may still run, if it does not heed its context. Then it
// keeps its worker (loop.Stats counts it), and the Request and Response are not used for another
// request. So f must not set variables that the handler uses; its result comes by Await alone.
func Await[T any](r *Request, d time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	if r.over() {
		var none T
		return none, ErrComplete
	}
	values := r.baseContext()
	return loop.Await(r.Thread, d, func(ctx context.Context) (T, error) {
		return f(valued{ctx, values})
	})
}

// valued is a context with the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// Value implements context.Context. It asks the context first, as context.WithCancel does, which
// looks for its parent in this way.
func (v valued) Value(key any) any {
	if own := v.Context.Value(key); own != nil {
		return own
	}
	return v.values.Value(key)
}

// Call begins f as Await does, and promises its result: for functions that run at the same time,
// and beside the handler. f's context ends d after the call (negative: never), when the client
// leaves (unless the request has chosen KeepWaiting), and when the request ends. f never runs if it
// has found no worker by then; the error of the promise is loop.ErrNoWorker at the limit, and
// otherwise loop.ErrCanceled. The other errors are those of Await.
//
// The promise is settled when f has returned. A wait for it has a limit of its own.
func Call[T any](r *Request, d time.Duration, f func(ctx context.Context) (T, error)) *loop.Promise[T] {
	if r.over() {
		p := new(loop.Promise[T])
		p.Reject(ErrComplete)
		return p
	}
	ctx, cancel := r.contextFor(d)
	late := func() error {
		switch ctx.Err() {
		case nil:
			return nil
		case context.DeadlineExceeded:
			return loop.ErrNoWorker
		}
		return loop.ErrCanceled
	}
	return loop.CallUnless(r.Thread, late, func() (v T, err error) {
		defer cancel()
		v, err = f(ctx)
		return v, ended(ctx, err)
	})
}

// contextFor returns the context of a function that runs off the loop for the request. It ends with
// the request at the latest.
func (r *Request) contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	waits := r.KeepWaiting(true)
	r.KeepWaiting(waits)
	var parent context.Context
	if waits {
		parent = r.lastingContext()
	} else {
		parent = r.Context()
	}
	if d < 0 {
		return context.WithCancel(parent)
	}
	return context.WithTimeout(parent, d)
}

// lastingContext returns the context that has the values of Context and ends with the request, but
// not when the client leaves. All functions of a request share it, and one deferred call: a request
// that lasts for hours may call thousands.
func (r *Request) lastingContext() context.Context {
	x := r.x
	if x.lasting == nil {
		ctx, cancel := context.WithCancel(r.baseContext())
		x.lasting = ctx
		r.Defer(func() {
			x.lasting = nil
			cancel()
		})
	}
	return x.lasting
}

// ended adds to the error of a function what its context's end is to a wait.
func ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("%w: %w", loop.ErrDeadlineExceeded, err)
	case errors.Is(err, context.Canceled) && context.Cause(ctx) == loop.ErrClientGone:
		return fmt.Errorf("%w: %w", loop.ErrClientGone, err)
	}
	return err
}
