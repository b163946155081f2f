package conn

import (
	"context"
	"slices"

	"github.com/lwango/lwango/loop"
)

// Context returns a context that is canceled when the request ends, or when the loop sees the
// client leave; then its cause is loop.ErrClientGone. It has the values and the user that the
// request has now, for ValueOf and UserOf. SetContext replaces it. Other goroutines may use the
// context.
func (r *Request) Context() context.Context {
	if r.over() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	x := r.x
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(r.baseContext())
		if h := takeoverOf(r.Thread); h != nil {
			h.cancel = x.cancel
		}
		if r.Gone() && x.subrequest == nil {
			x.cancel(loop.ErrClientGone)
		}
	}
	return r.withValues(x.ctx)
}

// SetContext replaces the request's context, for all that waits for the request from now on: an
// http.Handler behind HTTP gets it, and so do functions of Await and Call. When it ends, the waits
// of the request's thread, and of those that it starts from now on, return an error that wraps
// loop.ErrDeadlineExceeded or loop.ErrCanceled and the context's cause, unless the request has
// chosen KeepWaiting. Reading the request's body and writing the answer have limits of their own
// and go on.
//
// ctx usually descends from Context. If it does not, Context returns a child of it that ends with
// the request, and when the client leaves, all the same.
//
// A function that sets a context and ends it before the request is over sets the former one again.
func (r *Request) SetContext(ctx context.Context) {
	if r.over() {
		return
	}
	former := r.x.bound
	bound := r.replaceContext(ctx)
	if former != nil {
		former.Release()
	}
	r.Defer(bound.Release)
}

// useContext is SetContext until restore is called, which undoes each SetContext since then too.
func (r *Request) useContext(ctx context.Context) (restore func()) {
	x := r.x
	former, formerBound, behind := x.ctx, x.bound, r.older
	bound := r.replaceContext(ctx)
	return func() {
		bound.Release()
		if x.bound != bound {
			x.bound.Release()
		}
		x.ctx, x.bound, x.lasting, r.seen, r.older = former, formerBound, nil, nil, behind
	}
}

// replaceContext makes ctx, with the end of the request, the request's context.
func (r *Request) replaceContext(ctx context.Context) *loop.Binding {
	r.Context() // with an end
	x, outer := r.x, r.x.cancel
	bound := r.Thread.Layer().Bind(ctx)
	own, cancel := context.WithCancelCause(ctx)
	x.cancel = func(cause error) {
		bound.Stop() // this end is the request's, which needs no other to end its waits
		cancel(cause)
		outer(cause)
	}
	if h := takeoverOf(r.Thread); h != nil {
		h.cancel = x.cancel
	}
	x.ctx, x.bound, x.lasting, r.seen, r.older = own, bound, nil, nil, uint32(len(r.values))
	return bound
}

// baseContext returns the context to which Context adds an end: this one has none.
func (r *Request) baseContext() context.Context {
	if w := r.x.c.proxyHeader(); w != nil && w.original != nil {
		return w.original.ctx
	}
	if r.x.task != nil {
		return r.x.task
	}
	return context.Background()
}

// contextValues returns a context that has the values of Context. Whether it ends is not said.
func (r *Request) contextValues() context.Context {
	if r.x.bound != nil {
		return r.withValues(r.x.ctx)
	}
	return r.withValues(r.baseContext())
}

// withValues adds the present values and user to ctx. A context of SetContext may have a user that
// the request has no more.
func (r *Request) withValues(ctx context.Context) context.Context {
	if len(r.values) == 0 && r.user == "" && r.x.bound == nil {
		return ctx
	}
	if r.seen == nil {
		r.seen = &seen{user: r.user, older: r.older, values: slices.Clone(r.values)}
	}
	return &seenContext{ctx, r.seen}
}

// seen is what contexts have of a request: a copy, since other goroutines read it. It does not
// change any more.
type seen struct {
	values []value
	older  uint32
	user   string
}

// seenContext is a context with the values of a request.
type seenContext struct {
	context.Context
	seen *seen
}

// userKey is the key of the user in a context.
type userKey struct{}

// Value implements context.Context.
func (c *seenContext) Value(key any) any {
	s := c.seen
	if key == (userKey{}) {
		return s.user
	}
	if of, ok := lookUp(s.values[s.older:], key); ok {
		return of
	}
	if of := c.Context.Value(key); of != nil {
		return of
	}
	of, _ := lookUp(s.values[:s.older], key)
	return of
}

// ValueOf returns the value that Set has given the request to which ctx belongs, and whether there
// is one; a nil interface is none. ctx is that of an http.Handler, of Request.Context, or of a
// function of Await or Call, and has the values of the time when it was made. What was added by
// context.WithValue with the address of the key is found as well. Any goroutine may call it.
func ValueOf[T any](ctx context.Context, key *Key[T]) (v T, ok bool) {
	v, ok = ctx.Value(key).(T)
	return v, ok
}

// UserOf returns the user of the request to which ctx belongs, see ValueOf and Request.User; "" if
// there is none. Any goroutine may call it.
func UserOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}
