package websocket

import (
	"net"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// wire is a Conn as gorilla sees it: the connection below the frames. It gives gorilla the frames
// of data, each of them checked, and no control frames. Gorilla reads on until there is data; so it
// waits only within messages that have begun, and its own buffer is empty between them.
type wire Conn

// Read implements net.Conn. It never gives more than the rest of a frame.
func (w *wire) Read(p []byte) (int, error) {
	c := (*Conn)(w)
	for {
		begun, err := c.advance()
		switch {
		case err != nil:
			return 0, err
		case begun && (c.r < c.w || len(p) < bufferSize && c.fill()):
			n := copy(p, c.buf[c.r:min(int64(c.w), int64(c.r)+c.pass)])
			if c.atHeader && c.raw {
				p[0] &^= 0x40 // RSV1
			}
			c.use(n)
			c.passed(n)
			return n, nil
		case begun && len(p) >= bufferSize: // a long payload goes where it belongs at once
			if n := c.read(p[:min(int64(len(p)), c.pass)]); n > 0 {
				c.passed(n)
				return n, nil
			}
		}
		if err := c.awaitInput(); err != nil {
			return 0, err
		}
	}
}

// maxEmpty is how many fragments of a message may be empty and not its last. They add nothing, so no
// limit of length would ever end a message of these. Only a client that wants to keep the server
// busy sends more.
const maxEmpty = 64

// passed notes that gorilla has been given n bytes of the present frame.
func (c *Conn) passed(n int) {
	c.atHeader = false
	if c.pass -= int64(n); c.pass == 0 && !c.want.continuation {
		c.total, c.empty, c.until = 0, 0, time.Time{}
	}
}

// advance goes on to the next frame of data, unless one has begun, and acts on the control frames
// before it. It does not wait for input. It reports whether a frame has begun; the error is the one
// with which the connection has ended.
func (c *Conn) advance() (begun bool, err error) {
	for c.err == nil && c.pass == 0 {
		h, n, err := c.frame()
		switch {
		case err != nil:
			_ = c.violated(err)
		case n > 0 && h.control():
			payload := c.buf[c.r+n : c.r+n+int(h.length)]
			unmask(h.key, payload)
			c.act(h.opcode, payload)
			if c.use(n + int(h.length)); !c.want.continuation {
				c.until = time.Time{}
			}
		case n > 0:
			if h.opcode != opContinuation {
				c.deflated = h.compressed
			}
			if h.length > c.set.readLimit()-c.total {
				_ = c.violated(errTooBig)
				break
			}
			if h.length == 0 && !h.fin {
				if c.empty++; c.empty > maxEmpty {
					_ = c.violated(errEmpty)
					break
				}
			}
			c.total += h.length
			c.pass, c.atHeader, c.want.continuation = int64(n)+h.length, true, !h.fin
		case c.fill():
		case c.readErr != nil:
			_ = c.broken(c.readErr)
		case c.thread.Loop().Stopping() && !c.want.continuation:
			_ = c.fail(GoingAway, "")
		default:
			return false, nil
		}
	}
	return c.err == nil, c.err
}

// frame returns the header of the next frame and its length, or 0 while it is incomplete; a control
// frame must be there as a whole.
func (c *Conn) frame() (h header, n int, err *CloseError) {
	if c.r == c.w {
		return h, 0, nil
	}
	b := c.buf[c.r:c.w]
	h, n, err = parseHeader(b, c.want)
	if n > 0 && h.control() && len(b) < n+int(h.length) {
		n = 0
	}
	return h, n, err
}

// fill reads what is there into the buffer, and reports whether there was anything. It does not
// wait.
func (c *Conn) fill() bool {
	if c.readErr != nil || !c.unread() {
		return false
	}
	if c.buf == nil {
		c.buf = buffers.Get().(*[bufferSize]byte)
	}
	if c.r > 0 {
		c.r, c.w = 0, copy(c.buf[:], c.buf[c.r:c.w])
	}
	n := c.read(c.buf[c.w:])
	c.w += n
	c.use(0)
	return n > 0
}

// unread reports whether a read may give something. A wait asks this several times for each event,
// mostly in vain, so it takes no buffer and no way through the layers. TLS may hold bytes that the
// socket does not have.
func (c *Conn) unread() bool {
	return c.link.Unread() || c.early != nil || c.isTLS() || c.thread.Loop().Stopping()
}

// use removes n bytes from the buffer, and gives up the buffer when it is empty.
func (c *Conn) use(n int) {
	if c.r += n; c.r == c.w && c.buf != nil {
		buffers.Put(c.buf)
		c.buf, c.r, c.w = nil, 0, 0
	}
}

// read reads without waiting. It returns 0 if nothing is there, or if readErr says that nothing
// more will come.
func (c *Conn) read(p []byte) int {
	if c.early != nil {
		n, _ := c.early.Read(p)
		if c.early.Buffered() == 0 {
			c.early = nil
		}
		return n
	}
	if c.isTLS() { // which may have to answer a change of keys
		_ = c.link.SetWriteDeadline(time.Now().Add(c.set.writeTimeout()))
	}
	n, err := c.net.Read(p)
	if n > 0 {
		c.heard, c.asked = c.thread.Loop().Time(), false
		return n // an error that came with it comes again
	}
	if err != nil && err != stream.ErrWouldBlock {
		c.readErr = err
	}
	return 0
}

// awaitInput waits until there may be more to read. Between messages only keep-alive limits the
// wait.
func (c *Conn) awaitInput() error {
	if c.pass == 0 && !c.want.continuation {
		_, err := c.AwaitAny(c.readLeft(), c)
		return err
	}
	if c.readErr != nil {
		return c.broken(c.readErr)
	}
	left := c.messageLeft()
	if left <= 0 {
		return c.violated(errTooSlow)
	}
	if d := c.readLeft(); d >= 0 {
		if d == 0 {
			return loop.ErrDeadlineExceeded
		}
		left = min(left, d)
	}
	if err := c.link.AwaitRead(left); err != nil && err != loop.ErrDeadlineExceeded {
		return c.broken(err)
	}
	return nil
}

// messageLeft returns the time that is left for the rest of a message. The time begins with the
// first wait for it.
func (c *Conn) messageLeft() time.Duration {
	now := c.thread.Loop().Time()
	if c.until.IsZero() {
		c.until = now.Add(c.set.messageTimeout())
	}
	return c.until.Sub(now)
}

// readLeft returns how much time there is until the deadline that was set through gorilla;
// negative: there is none.
func (c *Conn) readLeft() time.Duration {
	if c.readBy.IsZero() {
		return -1
	}
	return max(time.Until(c.readBy), 0)
}

// writePiece is how much a peer must take within the write timeout.
const writePiece = 64 << 10

// Write implements net.Conn. A peer that does not take a piece in time has a broken connection.
func (w *wire) Write(p []byte) (int, error) {
	c := (*Conn)(w)
	if c.cut {
		return 0, errCut
	}
	if c.ws == nil && c.window { // the answer to the handshake
		p = withWindow(p)
	}
	c.cut = true // until all is written: a thread that is killed here does not come back
	written := 0
	for written < len(p) {
		n, err := c.write(p[written:min(len(p), written+writePiece)])
		written += n
		if err != nil {
			c.link.ResetOnClose()
			return written, err
		}
	}
	c.cut = false
	return written, nil
}

func (c *Conn) write(p []byte) (n int, err error) {
	if !c.isTLS() {
		if n, err = c.link.TryWrite(p); n == len(p) || err != nil && err != stream.ErrWouldBlock {
			return n, err
		}
	}
	if err := c.awaitRoom(); err != nil {
		return n, err
	}
	_ = c.link.SetWriteDeadline(c.writeUntil())
	m, err := c.net.Write(p[n:])
	_ = c.link.SetWriteDeadline(time.Time{})
	return n + m, err
}

// writeUntil returns the deadline of a write that begins now.
func (c *Conn) writeUntil() time.Time {
	by := time.Now().Add(c.set.writeTimeout())
	if !c.writeBy.IsZero() && c.writeBy.Before(by) {
		return c.writeBy
	}
	return by
}

// awaitRoom waits until there is room for more, if the kernel holds much for the peer. The kernel
// says so when the peer has taken a third of it, perhaps a megabyte; a peer that keeps to the write
// timeout's pace may take long for that. A stream of HTTP/2 is told by the peer itself.
func (c *Conn) awaitRoom() error {
	s, ok := c.link.(*stream.Stream)
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

// Close implements net.Conn.
func (w *wire) Close() error { return w.net.Close() }

// LocalAddr implements net.Conn.
func (w *wire) LocalAddr() net.Addr { return w.net.LocalAddr() }

// RemoteAddr implements net.Conn.
func (w *wire) RemoteAddr() net.Addr { return w.net.RemoteAddr() }

// SetDeadline implements net.Conn.
func (w *wire) SetDeadline(t time.Time) error {
	w.readBy, w.writeBy = t, t
	return nil
}

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.readBy = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.writeBy = t
	return nil
}
