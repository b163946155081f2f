package conn

import (
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// Keeper keeps a connection that a handler has taken over and handed on: see HandOver. Its methods are
// called on coroutines of the connection's thread. Between the calls the thread has none, nor is
// there anything left of the request.
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

// HandOver hands the connection, which the handler has taken over by Hijack, on to k, as soon as the
// handler has returned. So a connection that waits for long takes as little memory as an idle one:
// request, response and coroutine are given up. What else there is of the request goes on until the
// connection ends: the line of the access log, counts, the request's context, and what the handler has
// deferred (Request.Defer), which is called behind End. If the handler panics, Run is not called.
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
	h.deferred = loop.TakeDeferred(t)
	return true
}

// run lets the keeper run. A panic ends the connection, and nothing else.
func (h *takeover) run(t *loop.Thread) (idle time.Duration, more bool) {
	if h.panicked { // the handler has
		h.conclude(t)
		return 0, false
	}
	defer func() { // also when the thread is killed
		if !more {
			h.conclude(t)
		}
	}()
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
	idle, more = h.keeper.Run(t)
	if err := t.Join(); err != nil {
		threadFailed(t, err)
	}
	returned = true
	return idle, more
}

// conclude ends the use of the connection: by its keeper, and by what the handler has deferred.
func (h *takeover) conclude(t *loop.Thread) {
	k := h.keeper
	if k == nil {
		return
	}
	h.keeper = nil
	for _, f := range h.deferred {
		t.Defer(f)
	}
	h.deferred = nil
	defer t.RunDeferred(0)
	defer func() {
		if p := recover(); p != nil {
			panicked(t, p)
		}
	}()
	k.End(t)
}

// handed is a connection of HTTP/1.1 that a handler has taken over, and its thread's body once the
// handler has handed it on.
type handed struct {
	*connection
	takeover
	over net.Conn // what the handler has got
}

// release is deferred by the handler's coroutine: the connection ends.
func (h *handed) release() {
	if h.line != nil {
		h.line(&h.takeover)
	}
	_ = h.over.Close()
	h.port.tally.Hijacked--
	if h.cancel != nil {
		h.cancel(nil)
	}
}

// begin makes h the body of its thread, and runs it.
func (h *handed) begin(t *loop.Thread) coro.Code {
	loop.SetLocal(t, nil)
	loop.Indispensable(t)
	loop.Become(t, h)
	return h.Run(t)
}

// Run implements loop.Body.
func (h *handed) Run(t *loop.Thread) coro.Code {
	idle, more := h.run(t)
	if !more || t.FD() < 0 { // the keeper has closed it
		h.conclude(t)
		return coro.Abort
	}
	if h.tls != nil {
		slimTLS(h.tls, 0)
	}
	loop.Heed(t)
	loop.IdleTimeout(t, idle)
	return coro.WantRead
}

// Ending is called by the loop before it ends the thread, which is idle: a stop kills it.
func (h *handed) Ending() { loop.Last(&h.Thread, func() { h.conclude(&h.Thread) }) }
