package websocket

import (
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Prompt implements conn.PromptKeeper. What is relayed goes out from the loop itself, if the connection
// has nothing else to do, and its kernel has room: the coroutine, its buffers and the looks of Run are
// most of what a delivery costs beside the system call.
func (s *served) Prompt(d *loop.Descriptor) bool {
	c := (*Conn)(s)
	if c.phase != opened || c.cut || c.asked || c.want.deflate || c.writing() {
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

// send sends a message on the loop, and reports whether it has begun to. What the kernel has no room
// for is left to the thread.
func (f *follow) send(c *Conn, d *loop.Descriptor, m *pubsub.Message) bool {
	p := f.framed(m)
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

// framed is f.frame, which is the program's. If that panics, it is called again on the connection's
// thread.
func (f *follow) framed(m *pubsub.Message) (p *PreparedMessage) {
	defer func() { _ = recover() }()
	return f.frame(m)
}

// finishFrame sends the rest of a frame that Prompt has begun.
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
