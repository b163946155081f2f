package conn

import (
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// Keeper keeps a connection that a handler has taken over and handed on: see HandOver. Its methods
// are called on coroutines of the connection's thread. Between the calls the thread has none, nor
// is there anything left of the request.
type Keeper interface {
	// Run sees to what there is, and may wait. It is called once the handler has returned, and then
	// whenever something has come, the client has left, the loop stops, the thread was notified
	// (loop.Notify; sources stay watched between the calls), or the time has passed that Run has
	// returned: how long the connection may be idle, negative: without limit. Behind its last look
	// at what there is, it must not wait. more is false if the connection is to end.
	Run(t *loop.Thread) (idle time.Duration, more bool)

	// End is called once, at the end: Run has returned false, has panicked, which is logged, or has
	// called Goexit, or the thread was killed by a stop. Then no wait returns (see coro.Yield).
	// Behind End the connection is closed.
	End(t *loop.Thread)
}

// errKept refuses a second HandOver, or one without Hijack.
var errKept = errors.New("conn: only a handler that has taken its connection over can hand it on")

// HandOver hands the connection, which the handler has taken over by Hijack, on to k, as soon as
// the handler has returned. So a connection that waits for long takes as little memory as an idle
// one: request, response and coroutine are given up. What else there is of the request goes on
// until the connection ends: the line of the access log, counts, the request's context, and what
// was deferred (Request.Defer), which is called behind End, and for which the request stays. If the
// handler panics, Run is not called.
func (w ResponseLayer) HandOver(k Keeper) error {
	h := takeoverOf(w.x.req.Thread)
	if w.phase != hijacked || h == nil || h.keeper != nil {
		return errKept
	}
	h.keeper = k
	return nil
}

// handOver prepares the hand-over, if there is to be one, when the handler on t has returned.
func (h *takeover) handOver(t *loop.Thread) bool {
	if h == nil || h.keeper == nil {
		return false
	}
	if all := loop.TakeDeferred(t); all != nil {
		h.extra().deferred = all
	}
	return true
}

// defers reports whether the handler, or what has called it, has deferred functions. They may use
// the request until they have been called.
func (h *takeover) defers() bool { return h.more != nil && len(h.more.deferred) > 0 }

// run lets the keeper run. A panic ends the connection, and nothing else. again says that the
// thread has waited behind the keeper's last look, and may have missed something: the keeper is to
// run once more, before the thread is idle.
func (h *takeover) run(t *loop.Thread) (idle time.Duration, more, again bool) {
	if h.panicked { // the handler has
		h.conclude(t)
		return 0, false, false
	}
	defer func() { // also when the thread is killed
		if !more {
			h.conclude(t)
		}
	}()
	idle, goesOn, looked := h.call(t)
	return idle, goesOn, t.Loop().Resumes() != looked
}

// call calls the keeper's Run, and what that has deferred. looked is the loop's number of resumes
// when Run had looked at all there is.
func (h *takeover) call(t *loop.Thread) (idle time.Duration, more bool, looked int64) {
	returned := false
	defer func() {
		if !returned {
			p := recover()
			t.Cancel()
			_ = t.Join()
			if p != nil {
				panicked(t, p)
			}
		}
		t.RunDeferred(0)
	}()
	idle, goesOn := h.keeper.Run(t)
	looked = t.Loop().Resumes()
	if err := t.Join(); err != nil {
		threadFailed(t, err)
	}
	returned = true
	return idle, goesOn, looked
}

// conclude ends the use of the connection: by its keeper, and by what the handler has deferred.
func (h *takeover) conclude(t *loop.Thread) {
	k := h.keeper
	if k == nil {
		return
	}
	h.keeper = nil
	if m := h.more; m != nil {
		for _, f := range m.deferred {
			t.Defer(f)
		}
		m.deferred = nil
	}
	defer t.RunDeferred(0)
	defer func() {
		if p := recover(); p != nil {
			panicked(t, p)
		}
	}()
	k.End(t)
}

// LightKeeper is a Keeper that holds no net.Conn between two calls either.
type LightKeeper interface {
	Keeper

	// Attach gives the keeper the connection, as Hijack does, before Run and End. Its reads do not
	// wait. Detach takes it back.
	Attach(c net.Conn)
	Detach()
}

// NotifyKeeper is a LightKeeper that handles most messages of a topic without a coroutine.
type NotifyKeeper interface {
	LightKeeper

	// Notified is called on the loop, between two calls of Run, when a message has come to a topic
	// that the connection follows. It may send by d, and must not wait. If it returns false, Run is
	// called. It is not called for connections with TLS.
	Notified(d *loop.Descriptor) bool
}
