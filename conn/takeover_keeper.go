package conn

import (
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// Keeper keeps a connection that a handler has taken over and handed on: see HandOver. Its methods
// are called on coroutines of the connection's thread. Between the calls the thread has none, nor
// is there anything left of the request. A Keeper may have these methods besides:
//
//	// Attach gives the keeper the connection, as Hijack does, before Run and End. Its reads do not
//	// wait. Detach takes it back. So the keeper holds no net.Conn between two calls either.
//	Attach(c net.Conn)
//	Detach()
//
//	// Notified, of a keeper with Attach and Detach, is called on the loop, between two calls of
//	// Run, when a message has come to a topic that the connection follows. It may send by d, and
//	// must not wait. If it returns false, Run is called. It is not called for connections with TLS.
//	Notified(d *loop.Descriptor) bool
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

// lightKeeper is a Keeper that holds no net.Conn between two calls either.
type lightKeeper interface {
	Attach(c net.Conn)
	Detach()
}

// notifyKeeper is a lightKeeper that handles most messages of a topic without a coroutine.
type notifyKeeper interface {
	lightKeeper
	Notified(d *loop.Descriptor) bool
}
