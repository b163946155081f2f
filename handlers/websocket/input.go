package websocket

import (
	"bufio"
	"io"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// maxEmpty is how many fragments of a message, except the last, may be empty. Empty fragments would
// never reach a limit of length. Only a client that wants to keep the server busy sends more of
// them.
const maxEmpty = 64

// advance goes on to the next frame of data, unless one has begun, and acts on the control frames
// before it. It does not wait for input. It reports whether a frame has begun; the error is the one
// with which the connection has ended.
func (c *Conn) advance() (begun bool, err error) {
	c.takeBackInput()
	for c.err == nil && !c.begun {
		h, n, err := c.next()
		switch {
		case err != nil:
			_ = c.failProtocol(err)
		case n > 0 && h.control():
			payload := c.buffered()[n : n+int(h.length)]
			mask(h.key, 0, payload)
			c.act(h.opcode, payload)
			if c.use(n + int(h.length)); !c.expected.continuation {
				c.until = 0
			}
		case n > 0:
			c.use(n)
			_ = c.open(h)
		case c.fill():
		case c.inputEnded:
			_ = c.setError(c.extra.readErr)
		case c.thread.Loop().Stopping() && !c.expected.continuation:
			_ = c.fail(GoingAway, "")
		default:
			return false, nil
		}
	}
	return c.begun && c.err == nil, c.failure()
}

// failure returns the error with which the connection has ended.
func (c *Conn) failure() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// open begins a frame of data, after its header.
func (c *Conn) open(h header) error {
	if h.opcode != opContinuation {
		c.kind, c.compressed = h.opcode, h.compressed
	}
	if h.length > c.readLimit()-c.total {
		return c.failProtocol(errTooBig)
	}
	if h.length == 0 && !h.fin {
		if c.empty++; c.empty > maxEmpty {
			return c.failProtocol(errEmpty)
		}
	}
	c.total += h.length
	c.frame, c.at = h, 0
	c.begun, c.expected.continuation = true, !h.fin
	return nil
}

// readData reads from the message that has begun, and waits for its bytes. It returns io.EOF at the
// message's end, perhaps with its last bytes. Any other error is the one with which the connection
// has ended.
func (c *Conn) readData(p []byte) (int, error) {
	for {
		begun, err := c.advance()
		if err != nil {
			return 0, err
		}
		if begun {
			n := c.take(p)
			if c.at == c.frame.length {
				c.frameRead()
				if c.frame.fin {
					c.messageRead()
					return n, io.EOF
				}
			}
			if n > 0 {
				return n, nil
			}
			if !c.begun || c.r < c.w { // an empty fragment, or more is in the buffer
				continue
			}
		}
		if err := c.awaitInput(); err != nil {
			return 0, err
		}
	}
}

// take reads available bytes of the frame that has begun, and does not wait.
func (c *Conn) take(p []byte) (n int) {
	left := c.frame.length - c.at
	switch {
	case left == 0 || len(p) == 0:
		return 0
	case c.r < c.w || (len(p) < bufferSize || left < bufferSize) && c.fill():
		n = copy(p, c.buffered()[:min(int64(c.w-c.r), left)])
		c.use(n)
	case len(p) >= bufferSize && left >= bufferSize: // a long payload goes to p without a copy
		n = c.read(p[:min(int64(len(p)), left)])
	}
	mask(c.frame.key, c.at, p[:n])
	c.at += int64(n)
	return n
}

// frameRead notes that all of a frame of data was read.
func (c *Conn) frameRead() { c.begun = false }

// messageRead notes that all of a message was read.
func (c *Conn) messageRead() {
	c.total, c.empty, c.until = 0, 0, 0
}

// next returns the header of the next frame and its length, or 0 while it is incomplete; a control
// frame must be there as a whole.
func (c *Conn) next() (h header, n int, err *CloseError) {
	if c.r == c.w {
		return h, 0, nil
	}
	b := c.buffered()
	h, n, err = parseHeader(b, c.expected)
	if n > 0 && h.control() && len(b) < n+int(h.length) {
		n = 0
	}
	return h, n, err
}

// buffered returns the input in the buffer that is not used.
func (c *Conn) buffered() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf[c.r:c.w]
}

// fill reads available input into the buffer, and reports whether there was any. It does not wait.
func (c *Conn) fill() bool {
	if c.inputEnded || !c.unread() {
		return false
	}
	if c.buf == nil {
		c.buf = buffers.Get().(*[bufferSize]byte)
	}
	if c.r > 0 {
		c.r, c.w = 0, int32(copy(c.buf[:], c.buf[c.r:c.w]))
	}
	n := c.read(c.buf[c.w:])
	c.w += int32(n)
	c.use(0)
	return n > 0
}

// unread reports whether a read may return bytes. A wait calls it several times for each event,
// mostly in vain, so it takes no buffer and does not go through TLS. TLS may hold bytes that the
// socket does not have.
func (c *Conn) unread() bool {
	return c.link.Unread() || c.tls != nil || c.early() != nil || c.thread.Loop().Stopping()
}

// use removes n bytes from the buffer, and gives up the buffer when it is empty.
func (c *Conn) use(n int) {
	if c.r += int32(n); c.r == c.w && c.buf != nil {
		buffers.Put(c.buf)
		c.buf, c.r, c.w = nil, 0, 0
	}
}

// early returns the input that came with the request, or with the answer to it; nil: none is left.
func (c *Conn) early() *bufio.Reader {
	if c.extra == nil {
		return nil
	}
	return c.extra.early
}

// read reads without waiting. It returns 0 if no input is there, or if inputEnded says that no more
// will come.
func (c *Conn) read(p []byte) int {
	if r := c.early(); r != nil {
		n, _ := r.Read(p)
		if r.Buffered() == 0 {
			c.extra.early = nil
		}
		return n
	}
	if c.tls != nil { // which may have to answer a key update
		_ = c.link.SetWriteDeadline(time.Now().Add(c.set.writeTimeout()))
	}
	n, err := c.transport().Read(p)
	if n > 0 {
		c.lastInput, c.pingDue = c.now(), false
		return n // the next read returns an error that came with it
	}
	if err != nil && err != stream.ErrWouldBlock {
		c.inputEnded, c.ensureExtra().readErr = true, err
	}
	return 0
}

// awaitInput waits until there may be more to read of a message.
func (c *Conn) awaitInput() error {
	if c.inputEnded {
		return c.setError(c.extra.readErr)
	}
	left := c.messageLeft()
	if d := c.readLeft(); d >= 0 {
		left = min(left, d)
	}
	if left <= 0 {
		return c.failProtocol(errTooSlow)
	}
	var err error
	if box := c.box(); box == nil {
		err = c.link.AwaitRead(left)
	} else if _, err = c.thread.AwaitAny(left, c.source(), box); err == nil {
		err = c.deliver()
	}
	if err != nil && err != loop.ErrDeadlineExceeded {
		return c.setError(err)
	}
	return nil
}

// messageLeft returns the time that is left for the rest of a message. The time begins with the
// first wait for it.
func (c *Conn) messageLeft() time.Duration {
	now := c.now()
	if c.until == 0 {
		c.until = now + c.set.messageTimeout()
	}
	return c.until - now
}

// readLeft returns the time until the program's deadline; negative: there is none.
func (c *Conn) readLeft() time.Duration {
	if c.extra == nil || c.extra.readBy == 0 {
		return -1
	}
	return max(c.extra.readBy-c.exactNow(), 0)
}
