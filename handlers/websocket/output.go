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
// with the header, from one buffer. The rest follows without a copy, in the same system call if the
// connection can do that.
func (c *Conn) sendFrame(first byte, p []byte) error {
	if c.err != nil {
		return c.err
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	if c.expected.server {
		return c.sendMasked(b, first, p)
	}
	head := appendHeader(b[:0], first, len(p))
	n := min(len(p), bufferSize-len(head))
	return c.wrote(c.put(append(head, p[:n]...), p[n:]))
}

// sendMasked writes a frame of a client. A Conn must not change the payload, so all of it goes
// through the buffer b.
func (c *Conn) sendMasked(b *[bufferSize]byte, first byte, p []byte) error {
	if c.writeBroken {
		return c.setError(errCut)
	}
	r := rand.Uint32() // ChaCha8, seeded by the system: no page foresees it (RFC 6455 section 10.3)
	key := [4]byte{byte(r), byte(r >> 8), byte(r >> 16), byte(r >> 24)}
	out := appendMasked(b[:0], first, len(p), key)
	c.writeBroken = true
	for at := int64(0); ; out = b[:0] {
		head := len(out)
		n := copy(b[head:], p)
		out = b[:head+n]
		mask(key, at, out[head:])
		at += int64(n)
		if err := c.push(out, nil); err != nil {
			return c.setError(err)
		}
		if p = p[n:]; len(p) == 0 {
			c.writeBroken = false
			return nil
		}
	}
}

func (c *Conn) wrote(err error) error {
	if err != nil {
		return c.setError(err)
	}
	return nil
}

// put writes a and then b, a whole frame.
func (c *Conn) put(a, b []byte) error {
	if c.writeBroken {
		return errCut
	}
	c.writeBroken = true // until all is written: a thread may be killed here
	if err := c.push(a, b); err != nil {
		return err
	}
	c.writeBroken = false
	return nil
}

// push writes a and then b. It breaks the connection if the peer does not take a piece in time.
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
			return n, nil // the rest is for the next piece
		}
	}
	if err := c.awaitRoom(); err != nil {
		return n, err
	}
	_ = c.link.SetWriteDeadline(c.writeUntil())
	m, err := c.transport().Write(a[n:])
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
	if c.extra != nil && c.extra.sendsFinal {
		left = min(left, c.extra.finalDeadline-c.clock(now))
	}
	return now.Add(left)
}

// awaitRoom waits until there is room for more, if the kernel holds much for the peer. The kernel
// reports room once the peer has taken a third of that, perhaps a megabyte, for which a peer at the
// write timeout's pace may take long. A stream of HTTP/2 learns of room by WINDOW_UPDATE.
func (c *Conn) awaitRoom() error {
	s, ok := c.link.(*stream.Conn)
	if !ok || s.Unsent() < 4*writePiece {
		return nil // the write itself returns the error
	}
	for {
		progress, left := s.Progress(), max(time.Until(c.writeUntil()), 0)
		err := s.AwaitWrite(left)
		if err != loop.ErrDeadlineExceeded || left == 0 || s.Progress()-progress < writePiece {
			return err
		}
	}
}
