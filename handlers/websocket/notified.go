package websocket

import (
	"runtime/debug"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Notified implements conn.NotifyKeeper. What is relayed goes out from the loop itself, if the
// connection has nothing else to do, and its kernel has room: the coroutine, its buffers and the
// looks of Run are most of what a delivery costs beside the system call.
func (s *served) Notified(d *loop.Descriptor) bool {
	c := (*Conn)(s)
	if c.phase != opened || c.cut || c.threadOnly || c.asked || c.want.deflate || c.writing() {
		return false
	}
	for f := c.follows; f != nil; f = f.next {
		if f.frame == nil {
			if f.f != nil && f.sub.Ready() {
				return false
			}
		} else if f.f != nil && !f.sub.Pass(func(m *pubsub.Message) bool { return f.send(c, d, m) }) ||
			c.cut {
			return false
		}
	}
	return true
}

// send sends a message on the loop, and reports whether it has begun to. What the kernel has no
// room for is left to the thread.
func (f *follow) send(c *Conn, d *loop.Descriptor, m *pubsub.Message) bool {
	p := f.framed(c, m)
	if p == nil || len(p.frame) > writePiece {
		return false
	}
	n, errno := d.Send(p.frame, false)
	if errno != 0 {
		return false
	}
	if n < len(p.frame) {
		c.cut = true
		c.more().rest = p.frame[n:]
	}
	return true
}

// framed is f.frame, which is the program's. If that panics, this and later messages are for the
// connection's thread, which calls it again.
func (f *follow) framed(c *Conn, m *pubsub.Message) (p *PreparedMessage) {
	defer func() {
		if e := recover(); e != nil {
			c.threadOnly = true
			c.thread.Loop().Logger().Error("websocket: a function given to Relay has panicked on the loop",
				"panic", e, "stack", string(debug.Stack()))
		}
	}()
	return f.frame(m)
}

// finishFrame sends the rest of a frame that Notified has begun.
func (c *Conn) finishFrame() {
	if c.extra == nil || c.extra.rest == nil {
		return
	}
	rest := c.extra.rest
	c.extra.rest, c.cut = nil, false
	if c.err == nil {
		_ = c.wrote(c.put(rest, nil))
	}
}
