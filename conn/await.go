package conn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lwango/lwango/loop"
)

// Await runs f, which may block, on one of the loop's workers off the loop, and waits for its
// result, at most d; negative: without limit. The request's own thread calls it. It is for calls of
// libraries that take a context: f's ends at the limit, when the client leaves (unless the request
// has chosen KeepWaiting), and when Await returns.
//
// The error is f's, its panic as a *loop.PanicError, or that of a wait that has ended early:
// os.ErrDeadlineExceeded; loop.ErrNoWorker, which is one too; loop.ErrClientGone; loop.ErrCanceled.
// The first and the third it is also if f has returned because of its context. Then f may still run. So it must not set
// variables that the handler uses; its result comes by Await alone.
func Await[T any](r *Request, d time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	parent := context.Background()
	waiting := r.KeepWaiting(true)
	r.KeepWaiting(waiting)
	if !waiting {
		parent = r.Context()
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if d < 0 {
		ctx, cancel = context.WithCancel(parent)
	} else {
		ctx, cancel = context.WithTimeout(parent, d)
	}
	defer cancel()
	v, err := loop.Await(r.Thread, d, func() (T, error) { return f(ctx) })
	switch { // f may be the first to see the end of its context
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == context.DeadlineExceeded:
		err = fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	case errors.Is(err, context.Canceled) && context.Cause(ctx) == loop.ErrClientGone:
		err = fmt.Errorf("%w: %w", loop.ErrClientGone, err)
	}
	return v, err
}
