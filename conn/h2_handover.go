package conn

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// handed2 is a stream of HTTP/2 that a handler has taken over, and its thread's task from then on:
// while the handler runs, and while a keeper has it.
type handed2 struct {
	*h2stream
	takeover

	// While a LightKeeper has no link.
	client *peer // of the link; nil: it is the connection's
	taken  int64
}

// links are those that LightKeepers had.
var links = sync.Pool{New: func() any { return new(h2link) }}

// handedOf returns the task of t if its handler has taken the stream over; nil: it has not.
func handedOf(t *loop.Thread) *handed2 {
	h, _ := loop.TaskOf(t).(*handed2)
	return h
}

// release ends the stream.
func (h *handed2) release() {
	if h.line != nil {
		h.line.write(&h.takeover)
	}
	l := h.link
	l.failed = h.panicked
	if !l.closed {
		_ = l.Close()
	}
	if h.cancel != nil {
		h.cancel(nil)
	}
}

// begin leaves the stream to the keeper, gives up the request, and runs h.
func (h *handed2) begin(t *loop.Thread) coro.Code {
	h.kept = true
	h.giveUp(t, h.defers())
	return h.Run(t)
}

// Run implements loop.Task.
func (h *handed2) Run(t *loop.Thread) coro.Code {
	left := true
	defer func() { // also when the thread is killed
		if left {
			h.leave(t)
		}
	}()
	h.attach()
	in := &h.link.in
	in.Unwatch(t)
	idle, more, again := h.run(t)
	if !more || h.link.closed || in.Watch(t) != nil {
		h.conclude(t)
		return coro.Abort
	}
	left = false
	// the keeper may have waited between its last look at the stream and the end
	if again || in.Ready() {
		return coro.Yield
	}
	h.detach()
	loop.WakeOnNotify(t)
	loop.IdleTimeout(t, idle)
	return coro.Suspend
}

// attach gives a LightKeeper its link, unless it has it.
func (h *handed2) attach() {
	if h.link != nil {
		return
	}
	l := links.Get().(*h2link)
	l.st, l.taken, l.client, l.noWait = h.h2stream, h.taken, h.peer(), true
	l.in.link, l.out.link = l, l
	h.link = l
	h.keeper.(LightKeeper).Attach(l)
}

// detach takes it back, if nothing else depends on it.
func (h *handed2) detach() {
	k, ok := h.keeper.(LightKeeper)
	l, none := h.link, stream.Limit{}
	if !ok || l.out.thread != nil || l.in.limit != none || l.out.limit != none || l.first != nil ||
		l.resets || h.duplexing || len(h.Pending) > 0 {
		return
	}
	k.Detach()
	h.taken = l.taken
	if h.client == nil && l.client != h.s.remote {
		h.client = new(peer)
		*h.client = l.client
	}
	h.link = nil
	*l = h2link{}
	links.Put(l)
}

// peer returns the client.
func (h *handed2) peer() peer {
	switch {
	case h.link != nil:
		return h.link.client
	case h.client != nil:
		return *h.client
	}
	return h.s.remote
}

// BeforeEnd is called by the loop before it ends the thread, which is idle: a stop kills it.
func (h *handed2) BeforeEnd() {
	loop.RunBeforeEnd(&h.thread, func() {
		h.attach()
		defer h.leave(&h.thread)
		h.conclude(&h.thread)
	})
}

// Client implements loop.Client.
func (h *handed2) Client() netip.Addr { return h.peer().addrPort().Addr() }

func (h *handed2) failed(what string, args ...any) {
	if !h.kept {
		h.h2stream.failed(what, args...)
		return
	}
	h.s.set.Logger.Error(what, append(args, "request_id", h.id(), "remote", h.peer().addrPort())...)
}
