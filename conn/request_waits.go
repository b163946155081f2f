package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lwango/lwango/loop"
)

// What a handler can do with the thread that it runs on. The methods only pass on the call:
// embedding the thread would hide them from the documentation of Request. It would also give
// handlers the methods that are meant for the bodies of threads, which wait on the connection's
// descriptor and run its deferred calls. When the request is over, waits return ErrComplete.

// Sleep waits for d. It returns nil, loop.ErrClientGone as soon as the client leaves (see
// KeepWaiting), or loop.ErrCanceled.
func (r *Request) Sleep(d time.Duration) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.Sleep(d)
}

// Yield lets the other threads of the loop run; the handler goes on in the loop's next turn.
func (r *Request) Yield() {
	if !r.over() {
		r.Thread.Yield()
	}
}

// Await runs f, which may block, off the loop, and waits for it, for d at most; negative: without
// limit. It is the function Await for an f without a result.
func (r *Request) Await(d time.Duration, f func(ctx context.Context) error) error {
	_, err := Await(r, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// AwaitAny waits until one of the sources is ready, for d at most; negative: without limit. It
// returns the index of the first ready one, in the order given, or -1 with
// loop.ErrDeadlineExceeded, loop.ErrClientGone or loop.ErrCanceled. If a source cannot be waited
// for, AwaitAny returns its index and its error.
func (r *Request) AwaitAny(d time.Duration, sources ...loop.Source) (int, error) {
	if r.over() {
		return -1, ErrComplete
	}
	return r.Thread.AwaitAny(d, sources...)
}

// AwaitAll waits until all of the sources are ready, for d at most; negative: without limit. Its
// errors are those of AwaitAny.
func (r *Request) AwaitAll(d time.Duration, sources ...loop.Source) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.AwaitAll(d, sources...)
}

// After returns a source that is ready when d has passed.
func (r *Request) After(d time.Duration) *loop.Timer { return r.Thread.After(d) }

// AwaitRead waits until the descriptor fd can be read or has hung up, for d at most; negative:
// without limit. Errors, and how to close such a descriptor, are those of loop.Thread.AwaitRead. fd
// cannot be the client's connection, which only Body and Response read and write.
func (r *Request) AwaitRead(d time.Duration, fd int) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.AwaitRead(d, fd)
}

// AwaitWrite waits until fd can be written or has hung up; see AwaitRead.
func (r *Request) AwaitWrite(d time.Duration, fd int) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.AwaitWrite(d, fd)
}

// AwaitReadWrite waits until fd can be read or written or has hung up; see AwaitRead.
func (r *Request) AwaitReadWrite(d time.Duration, fd int) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.AwaitReadWrite(d, fd)
}

// ReadFD reads from fd, as read(2), and waits as AwaitRead does if there is nothing to read. It
// returns at least one byte if p has room for any; the end is io.EOF.
func (r *Request) ReadFD(d time.Duration, fd int, p []byte) (int, error) {
	if r.over() {
		return 0, ErrComplete
	}
	return r.Thread.ReadFD(d, fd, p)
}

// RecvFD is ReadFD for a socket, as recv(2).
func (r *Request) RecvFD(d time.Duration, fd int, p []byte) (int, error) {
	if r.over() {
		return 0, ErrComplete
	}
	return r.Thread.RecvFD(d, fd, p)
}

// WriteFD writes all of p to fd, as write(2), and waits as AwaitWrite does for room. On an error it
// returns how much was written.
func (r *Request) WriteFD(d time.Duration, fd int, p []byte) (int, error) {
	if r.over() {
		return 0, ErrComplete
	}
	return r.Thread.WriteFD(d, fd, p)
}

// WritevFD is WriteFD for several buffers, as writev(2). It does not change them.
func (r *Request) WritevFD(d time.Duration, fd int, buffers [][]byte) (int64, error) {
	if r.over() {
		return 0, ErrComplete
	}
	return r.Thread.WritevFD(d, fd, buffers)
}

// CloseFD closes a descriptor that threads have awaited. A thread that waits for it gets
// net.ErrClosed.
func (r *Request) CloseFD(fd int) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.CloseFD(fd)
}

// Go starts a green thread that runs f, on the same loop and within the present scope: the
// innermost call of Scope, or else the whole request, which waits for f before it ends. An error or
// a panic of f cancels the other threads of the scope, and ends the handler's waits until it joins
// them; reading the body and writing the answer go on. An error that the handler does not take with
// Join makes the answer a 500. When the client leaves, the waits of all threads end. Of f and the
// handler only one runs at a time, so they share variables without locks; but Body and Response are
// for the handler alone.
func (r *Request) Go(f func(t *loop.Thread) error) *loop.Thread { return r.Thread.Go(f) }

// Join waits for the threads of the present scope. It returns the error, or the panic as a
// *loop.PanicError, of the one that failed first, if the handler has not canceled them. Neither a
// limit of time nor the client's leaving ends it; both end the waits of the threads.
func (r *Request) Join() error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.Join()
}

// Cancel ends the waits of the threads of the present scope with loop.ErrCanceled. Join tells when
// they have ended.
func (r *Request) Cancel() { r.Thread.Cancel() }

// Scope runs f with a scope of its own for the threads that f starts with Go, and returns when
// these have ended. The error is f's, or theirs if f has none. If f fails, or panics, they
// are canceled.
func (r *Request) Scope(f func() error) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.Scope(f)
}

// Within runs f with a budget of time, and returns f's error:
//
//	err := req.Within(300*time.Millisecond, func() error {
//		user, err := lwango.Await(req, -1, findUser)
//		...
//	})
//
// When d has passed, the waits of the handler and of threads that f has started end with
// loop.ErrBudget, which is a loop.ErrDeadlineExceeded: Sleep, Await, AwaitAny, reads of the body,
// calls of package client and the like. Those that begin later return it at once. The context of
// Await's functions has the deadline, and so has that of an http.Handler behind HTTP, which decides
// itself what to do about it. Writes of the answer and Join go on. Of nested calls the shortest
// budget counts; a negative d adds none. To give a whole request a budget, its handler, or a
// middleware, does all its work in f.
func (r *Request) Within(d time.Duration, f func() error) error {
	if r.over() {
		return ErrComplete
	}
	return r.Thread.Within(d, f)
}

// Deadline returns when the budget of Within ends. ok is false if there is none.
func (r *Request) Deadline() (by time.Time, ok bool) {
	if r.over() {
		return time.Time{}, false
	}
	return r.Thread.Deadline()
}

// Defer registers f. The request's thread calls it when the handler has returned and the answer is
// complete, or when the thread is killed. The end of a short answer may still be in a buffer then;
// it goes out before f waits. The function that was registered last is called first.
func (r *Request) Defer(f func()) { r.Thread.Defer(f) }

// Gone reports whether the loop has seen the client send no more, or leave altogether. What the
// client sent before may still be unread.
func (r *Request) Gone() bool { return r.over() || r.Thread.Gone() }

// KeepWaiting decides whether the handler's waits go on after the client has left, or the context
// of SetContext has ended; without it they end with loop.ErrClientGone, or the context's error. It
// returns the previous choice.
func (r *Request) KeepWaiting(on bool) (was bool) {
	if a := r.tapped(); a != nil {
		return a.keepWaiting(on)
	}
	return r.Thread.KeepWaiting(on)
}

// tapped returns the tap of the answer; nil: there is none.
func (r *Request) tapped() *tapped {
	if r.over() {
		return nil
	}
	return r.x.resp.tap
}

// Loop returns the loop on which the handler runs.
func (r *Request) Loop() *loop.Loop { return r.Thread.Loop() }

// Await runs f, which may block, off the loop, on one of its workers, and waits for its result, for
// d at most; negative: without limit. The request's own thread calls it.
//
// It is for calls of libraries that take a context: f's ends at the limit and when Await returns,
// for whatever reason. So it also ends when the client leaves (unless the request has chosen
// KeepWaiting), and when the server's stop cuts the request. It has the values of Request.Context,
// and ends with the context of SetContext, unless the request has chosen KeepWaiting.
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
	values := r.contextValues()
	if r.x.bound == nil || r.keepsWaiting() {
		return loop.Await(r.Thread, d, func(ctx context.Context) (T, error) {
			return f(valued{ctx, values})
		})
	}
	v, err := loop.Await(r.Thread, d, func(ctx context.Context) (T, error) {
		own, stop := under(values, ctx)
		defer stop()
		v, err := f(own)
		if by, ok := ctx.Deadline(); ok && err != nil && !time.Now().Before(by) {
			<-ctx.Done() // own has a timer of its own, which may be the first
		}
		return v, err
	})
	return v, withCause(values, err)
}

// under returns a child of parent that also ends when wait does.
func under(parent, wait context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := func() {}
	if by, ok := wait.Deadline(); ok {
		ctx, forget = context.WithDeadline(ctx, by)
	}
	stop := context.AfterFunc(wait, func() {
		if wait.Err() != context.DeadlineExceeded { // which ctx has, too
			cancel(context.Cause(wait))
		}
	})
	return ctx, func() {
		stop()
		forget()
		cancel(nil)
	}
}

// withCause returns the error of a wait for a function: err, or, if the function has returned
// because ctx has ended and the thread has not seen that yet, what the thread would have seen.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	cause, end := context.Cause(ctx), loop.ErrCanceled
	switch {
	case errors.Is(cause, loop.ErrClientGone):
		end = loop.ErrClientGone
	case ctx.Err() == context.DeadlineExceeded:
		end = loop.ErrDeadlineExceeded
	}
	if !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// keepsWaiting returns the choice of KeepWaiting.
func (r *Request) keepsWaiting() bool {
	was := r.KeepWaiting(true)
	r.KeepWaiting(was)
	return was
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
// The promise is settled when f has returned. A wait for it has a limit of its own. f's context
// also ends when loop.Collect or loop.First do not want the result any more.
func Call[T any](r *Request, d time.Duration,
	f func(ctx context.Context) (T, error)) *loop.Promise[T] {
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
	return loop.CallUnless(r.Thread, late, cancel, func() (v T, err error) {
		defer cancel()
		v, err = f(ctx)
		return v, ended(ctx, err)
	})
}

// contextFor returns the context of a function that runs off the loop for the request. It ends with
// the request at the latest.
func (r *Request) contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	var parent context.Context
	if r.keepsWaiting() {
		parent = r.lastingContext()
	} else {
		parent = r.Context()
	}
	if by, ok := r.Deadline(); ok && (d < 0 || time.Until(by) < d) {
		return context.WithDeadline(parent, by)
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
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.contextValues()))
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
