package conn

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// h2Hijacked is a stream of HTTP/2 that a handler has taken over.
type h2Hijacked struct {
	*h2stream
	takeover

	// While a lightKeeper has no connection.
	client *peer // nil: it is the session's
	taken  int64
}

// streamConns are those that keepers with Attach had.
var streamConns = sync.Pool{New: func() any { return new(streamConn) }}

// Run implements loop.Task.
func (h *h2Hijacked) Run(t *loop.Thread) coro.Code { return runKeeper(h, t) }

// BeforeEnd is an optional method of a loop.Task.
func (h *h2Hijacked) BeforeEnd() { endKeeper(h, &h.thread) }

// ClientGone implements loop.Task.
func (h *h2Hijacked) ClientGone() { h.clientLeft() }

// Client is an optional method of a loop.Task.
func (h *h2Hijacked) Client() netip.Addr { return clientOf(h) }

// Describe says what the stream's thread does, for a dump of threads.
func (h *h2Hijacked) Describe() string { return describe(h, "hijacked") }

func (h *h2Hijacked) failed(what string, args ...any) {
	if h.kept {
		logFailed(h, what, args)
	} else {
		h.h2stream.failed(what, args...)
	}
}

// exchange implements record: the handler may use its request, but nothing else does.
func (h *h2Hijacked) exchange() *exchange { return nil }

// peer implements owner.
func (h *h2Hijacked) peer() peer {
	switch {
	case h.conn != nil:
		return h.conn.client
	case h.client != nil:
		return *h.client
	}
	return h.s.remote
}

// giveUp implements owner.
func (h *h2Hijacked) giveUp(t *loop.Thread) { h.dropRequest(t, h.defers()) }

// attach implements owner. It gives a lightKeeper its connection, unless it has it.
func (h *h2Hijacked) attach() {
	if h.conn != nil {
		return
	}
	l := streamConns.Get().(*streamConn)
	l.st, l.taken, l.client, l.noWait = h.h2stream, h.taken, h.peer(), true
	l.in.conn, l.out.conn = l, l
	h.conn = l
	h.keeper.(lightKeeper).Attach(l)
}

// begin implements owner.
func (h *h2Hijacked) begin(t *loop.Thread) { h.conn.in.Unwatch(t) }

// lasts implements owner. The keeper may have closed the connection.
func (h *h2Hijacked) lasts(t *loop.Thread) bool {
	return !h.conn.closed && h.conn.in.Watch(t) == nil
}

// rest implements owner. It takes its connection from a lightKeeper, if nothing else depends on it.
func (h *h2Hijacked) rest(*loop.Thread) coro.Code {
	l, none := h.conn, stream.Limit{}
	if l.in.Ready() { // the keeper may have waited between its last look at the stream and the end
		return coro.Yield
	}
	k, ok := h.keeper.(lightKeeper)
	if !ok || l.out.thread != nil || l.in.limit != none || l.out.limit != none || l.first != nil ||
		l.resets || h.duplexing || len(h.Pending) > 0 {
		return coro.Suspend
	}
	k.Detach()
	h.taken = l.taken
	if h.client == nil && l.client != h.s.remote {
		h.client = new(peer)
		*h.client = l.client
	}
	h.conn = nil
	*l = streamConn{}
	streamConns.Put(l)
	return coro.Suspend
}

// complete implements owner.
func (h *h2Hijacked) complete(*loop.Thread) coro.Code { return coro.Abort }

// release implements owner. It closes the stream.
func (h *h2Hijacked) release(t *loop.Thread) {
	defer h.leave(t)
	if h.line != nil {
		h.line.write(&h.takeover)
	}
	l := h.conn
	l.failed = h.panicked
	if !l.closed {
		_ = l.Close()
	}
	if h.cancel != nil {
		h.cancel(nil)
	}
}
