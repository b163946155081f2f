package websocket

import (
	"runtime/debug"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Notified is an optional method of a conn.Keeper. It sends relayed messages from the loop itself,
// if the connection has nothing else to do and the kernel has room for them: the coroutine, its
// buffers and the checks of Run are most of the cost of a delivery besides the system call.
func (s *served) Notified(d *loop.Descriptor) bool {
	c := (*Conn)(s)
	if c.phase != opened || c.writeBroken || c.relayOnThread || c.pingDue || c.expected.deflate ||
		c.writing() {
		return false
	}
	for f := c.subscriptions; f != nil; f = f.next {
		if f.frame == nil {
			if f.f != nil && f.sub.Ready() {
				return false
			}
		} else if f.f != nil &&
			!f.sub.SendNext(func(m *pubsub.Message) bool { return f.send(c, d, m) }) ||
			c.writeBroken {
			return false
		}
	}
	return true
}

// send sends a message on the loop, and reports whether it has begun to. It leaves bytes for which
// the kernel has no room to the thread.
func (f *subscription) send(c *Conn, d *loop.Descriptor, m *pubsub.Message) bool {
	p := f.framed(c, m)
	if p == nil || len(p.frame) > writePiece {
		return false
	}
	n, errno := d.Send(p.frame, false)
	if errno != 0 {
		return false
	}
	if n < len(p.frame) {
		c.writeBroken = true
		c.ensureExtra().unsentFrame = p.frame[n:]
	}
	return true
}

// framed calls f.frame, a function of the program. If that panics, the connection's thread calls it
// again, for this message and all later ones.
func (f *subscription) framed(c *Conn, m *pubsub.Message) (p *PreparedMessage) {
	defer func() {
		if e := recover(); e != nil {
			c.relayOnThread = true
			c.thread.Loop().Layer().Logger().Error(
				"websocket: a function given to Relay has panicked on the loop",
				"panic", e, "stack", string(debug.Stack()))
		}
	}()
	return f.frame(m)
}

// finishFrame sends the rest of a frame that Notified has begun.
func (c *Conn) finishFrame() {
	if c.extra == nil || c.extra.unsentFrame == nil {
		return
	}
	rest := c.extra.unsentFrame
	c.extra.unsentFrame, c.writeBroken = nil, false
	if c.err == nil {
		_ = c.wrote(c.put(rest, nil))
	}
}
