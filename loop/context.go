package loop

import (
	"context"
	"errors"
	"fmt"
)

// Binding lets the end of a context end the waits of a thread, see Bind.
type Binding struct {
	thread *Thread
	ctx    context.Context
	stop   func() bool
	outer  *Binding // also once it is released: a thread that was started under b asks for it
	err    error    // of waits, once the context has ended
	over   bool     // it was released
}

// Bind makes the waits of t, and of the threads that it starts while it is bound, return when ctx
// ends, until the Binding is released; t calls it. Threads that t has started before go on. The
// error is ErrDeadlineExceeded or ErrCanceled, and wraps the cause. KeepWaiting goes before that,
// and the wait for t's own socket goes on. A context that ends because t's client leaves ends no
// wait of its own: that is for KeepWaiting to decide.
func (t ThreadLayer) Bind(ctx context.Context) *Binding {
	m := t.extra()
	b := &Binding{thread: t.Thread, ctx: ctx, outer: m.bound}
	m.bound = b
	if ctx.Err() != nil {
		b.end()
		b.stop = func() bool { return false }
		return b
	}
	b.stop = context.AfterFunc(ctx, func() { _ = t.loop.Post(b.end) })
	return b
}

// Stop makes b ignore an end of its context that is still to come. Any goroutine may call it.
func (b *Binding) Stop() { b.stop() }

// Release undoes Bind. The thread calls it.
func (b *Binding) Release() {
	b.stop()
	b.over = true
	if m := b.thread.more; m != nil {
		for at := &m.bound; *at != nil; at = &(*at).outer {
			if *at == b {
				*at = b.outer
				return
			}
		}
	}
}

// end is called on the loop when the context has ended.
func (b *Binding) end() {
	cause := context.Cause(b.ctx)
	switch {
	case b.over, errors.Is(cause, ErrClientGone):
		return
	case b.ctx.Err() == context.DeadlineExceeded:
		b.err = fmt.Errorf("%w: %w", ErrDeadlineExceeded, cause)
	default:
		b.err = fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	b.thread.contextEnded(b)
}

// contextEnded ends the waits of t, and of the threads that it has started under b, for b's
// context. The thread keeps b for its wait, which may return after b's release.
func (t *Thread) contextEnded(b *Binding) {
	if f := t.own.flags; f&keepWaiting == 0 && f&suspended != 0 {
		t.extra().ended = b
		t.loop.ready(t, byContext)
	}
	if t.more == nil {
		return
	}
	for s := t.more.scope; s != nil; s = s.outer {
		for member := range s.members {
			if t != b.thread || member.more.under.within(b) {
				member.contextEnded(b)
			}
		}
	}
}

// within reports whether b is outer or was made inside it.
func (b *Binding) within(outer *Binding) bool {
	for ; b != nil; b = b.outer {
		if b == outer {
			return true
		}
	}
	return false
}

// boundError returns the error of a context that has ended and that t is bound to, or that a thread
// was bound to when it started t or one that started t; nil: there is none.
func (t *Thread) boundError() error {
	for m, b := t.more, t.more.bound; ; b, m = m.under, m.member.owner.more {
		for ; b != nil; b = b.outer {
			if b.err != nil && !b.over {
				return b.err
			}
		}
		if m.member == nil {
			return nil
		}
	}
}
