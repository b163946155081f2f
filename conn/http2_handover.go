package conn

import (
	"net/netip"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// handed2 is a stream of HTTP/2 that a handler has taken over, and its thread's body once the handler
// has handed it on.
type handed2 struct {
	*h2stream
	takeover
}

// release is deferred by the handler's coroutine: the stream ends.
func (h *handed2) release() {
	if h.line != nil {
		h.line(&h.takeover)
	}
	l := h.link
	l.failed = h.panicked
	if !l.closed {
		_ = l.Close()
	}
	if h.cancel != nil {
		h.cancel(nil)
	}
	if h.x != nil {
		loop.SetLocal(&h.thread, nil)
	}
}

// begin makes h the body of its thread, gives up the request, and runs h.
func (h *handed2) begin(t *loop.Thread) coro.Code {
	loop.SetLocal(t, nil)
	loop.Become(t, h)
	h.giveUp(t, h.defers(1)) // one is h.release
	return h.Run(t)
}

// Run implements loop.Body.
func (h *handed2) Run(t *loop.Thread) coro.Code {
	left := true
	defer func() { // also when the thread is killed
		if left {
			h.leave(t)
		}
	}()
	in := &h.link.in
	in.Unwatch(t)
	idle, more, again := h.run(t)
	if !more || h.link.closed || in.Watch(t) != nil {
		h.conclude(t)
		return coro.Abort
	}
	left = false
	if again || in.Ready() { // the keeper may have waited between its last look at the stream and the end
		return coro.Yield
	}
	loop.Heed(t)
	loop.IdleTimeout(t, idle)
	return coro.Suspend
}

// Ending is called by the loop before it ends the thread, which is idle: a stop kills it.
func (h *handed2) Ending() {
	loop.Last(&h.thread, func() {
		defer h.leave(&h.thread)
		h.conclude(&h.thread)
	})
}

// Client implements loop.Client.
func (h *handed2) Client() netip.Addr { return h.link.client.Addr() }

func (h *handed2) failed(what string, args ...any) {
	h.s.set.Logger.Error(what, append(args, "request_id", h.id, "remote", h.link.client)...)
}
