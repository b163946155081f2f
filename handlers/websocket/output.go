package websocket

import (
	"math/rand/v2"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// writePiece is how much a peer must take within the write timeout.
const writePiece = 64 << 10

// sendFrame writes one frame. first is its first byte. The beginning of a long payload goes out
// with the header, from one buffer, and the rest behind it from where it is, in the same system
// call where the connection can do that.
func (c *Conn) sendFrame(first byte, p []byte) error {
	if c.err != nil {
		return c.err
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	if c.want.server {
		return c.sendMasked(b, first, p)
	}
	head := appendHeader(b[:0], first, len(p))
	n := min(len(p), bufferSize-len(head))
	return c.wrote(c.put(append(head, p[:n]...), p[n:]))
}

// sendMasked writes a frame of a client. The payload is not the Conn's to change, so all of it goes
// through the buffer b.
func (c *Conn) sendMasked(b *[bufferSize]byte, first byte, p []byte) error {
	if c.cut {
		return c.broken(errCut)
	}
	r := rand.Uint32() // ChaCha8, seeded by the system: no page foresees it (RFC 6455 section 10.3)
	key := [4]byte{byte(r), byte(r >> 8), byte(r >> 16), byte(r >> 24)}
	out := appendMasked(b[:0], first, len(p), key)
	c.cut = true
	for at := int64(0); ; out = b[:0] {
		head := len(out)
		n := copy(b[head:], p)
		out = b[:head+n]
		mask(key, at, out[head:])
		at += int64(n)
		if err := c.push(out, nil); err != nil {
			return c.broken(err)
		}
		if p = p[n:]; len(p) == 0 {
			c.cut = false
			return nil
		}
	}
}

func (c *Conn) wrote(err error) error {
	if err != nil {
		return c.broken(err)
	}
	return nil
}

// put writes a and then b, a whole frame.
func (c *Conn) put(a, b []byte) error {
	if c.cut {
		return errCut
	}
	c.cut = true // until all is written: a thread that is killed here does not come back
	if err := c.push(a, b); err != nil {
		return err
	}
	c.cut = false
	return nil
}

// push writes a and then b. A peer that does not take a piece in time has a broken connection.
func (c *Conn) push(a, b []byte) error {
	for len(a)+len(b) > 0 {
		if len(a) == 0 {
			a, b = b, nil
		}
		n, err := c.write(a, b)
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
		if err != nil {
			c.link.ResetOnClose()
			return err
		}
	}
	return nil
}

// write writes a piece of a and then b, and waits until the kernel has taken it.
func (c *Conn) write(a, b []byte) (n int, err error) {
	a = a[:min(len(a), writePiece)]
	b = b[:min(len(b), writePiece-len(a))]
	if c.tls == nil {
		all := len(a)
		if s, ok := c.link.(*stream.Conn); ok && len(b) > 0 {
			all += len(b)
			n, err = s.TrySend(a, b)
		} else {
			n, err = c.link.TryWrite(a)
		}
		if n == all || err != nil && err != stream.ErrWouldBlock {
			return n, err
		}
		if n >= len(a) {
			return n, nil // the rest is the next piece's
		}
	}
	if err := c.awaitRoom(); err != nil {
		return n, err
	}
	_ = c.link.SetWriteDeadline(c.writeUntil())
	m, err := c.below().Write(a[n:])
	_ = c.link.SetWriteDeadline(time.Time{})
	return n + m, err
}

// writeUntil returns the deadline of a write that begins now.
func (c *Conn) writeUntil() time.Time {
	now := time.Now()
	left := c.set.writeTimeout()
	if c.extra != nil && c.extra.writeBy != 0 {
		left = min(left, c.extra.writeBy-c.clock(now))
	}
	if c.extra != nil && c.extra.last {
		left = min(left, c.extra.lastBy-c.clock(now))
	}
	return now.Add(left)
}

// awaitRoom waits until there is room for more, if the kernel holds much for the peer. The kernel
// says so when the peer has taken a third of it, perhaps a megabyte; a peer that keeps to the write
// timeout's pace may take long for that. A stream of HTTP/2 is told by the peer itself.
func (c *Conn) awaitRoom() error {
	s, ok := c.link.(*stream.Conn)
	if !ok || s.Unsent() < 4*writePiece {
		return nil // the write itself finds out
	}
	for {
		progress, left := s.Progress(), max(time.Until(c.writeUntil()), 0)
		err := s.AwaitWrite(left)
		if err != loop.ErrDeadlineExceeded || left == 0 || s.Progress()-progress < writePiece {
			return err
		}
	}
}
