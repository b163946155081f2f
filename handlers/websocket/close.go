package websocket

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

var (
	errCut     = errors.New("a frame was cut short before")
	errSilent  = errors.New("peer is silent")
	errTooBig  = &CloseError{Code: TooBig, Text: "message too big"}
	errEmpty   = &CloseError{Code: PolicyViolation, Text: "too many empty fragments"}
	errInflate = &CloseError{Code: InvalidData, Text: "compressed data is invalid"}
	errUTF8    = &CloseError{Code: InvalidData, Text: "text is not UTF-8"}
	errLate    = &CloseError{Code: PolicyViolation, Text: "no message in time"}
	errTooSlow = &CloseError{Code: PolicyViolation, Text: "message not complete in time"}
)

// closeWait bounds the wait for a peer's answer to a close. It is a variable only for tests.
var closeWait = 5 * time.Second

// act acts on a control frame.
func (c *Conn) act(opcode byte, payload []byte) {
	switch opcode {
	case opPing:
		c.control(opPong, payload)
	case opPong:
		c.ponged(payload)
	case opClose:
		code, text, err := parseClose(payload)
		if err != nil {
			_ = c.failProtocol(err)
			return
		}
		c.control(opClose, closePayload(code, ""))
		// This is how the connection has ended, even if the peer was gone before it could be answered.
		c.err, c.closeReceived = &CloseError{Code: code, Text: text}, true
	}
}

// closePayload makes the payload of a close frame.
func closePayload(code int, reason string) []byte {
	if code == NoStatus {
		return nil
	}
	p := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(reason)), uint16(code))
	return append(p, reason...)
}

// parseClose parses the payload of a close frame (RFC 6455 sections 5.5.1 and 7.4).
func parseClose(p []byte) (code int, text string, err *CloseError) {
	if len(p) == 0 {
		return NoStatus, "", nil
	}
	if len(p) == 1 {
		return 0, "", violation("close code cut short")
	}
	code = int(binary.BigEndian.Uint16(p))
	switch {
	case !validCode(code):
		return 0, "", violation("invalid close code")
	case !utf8.Valid(p[2:]):
		return 0, "", &CloseError{Code: InvalidData, Text: "reason of the close is not UTF-8"}
	}
	return code, string(p[2:]), nil
}

// validCode reports whether a code may be sent: it is registered with IANA for that, or free for
// use.
func validCode(code int) bool {
	switch {
	case code == 1004, code == NoStatus, code == Abnormal:
		return false
	}
	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999
}

// control sends a control frame.
func (c *Conn) control(opcode byte, payload []byte) { _ = c.sendFrame(finBit|opcode, payload) }

// fail begins the close of the connection, if it has not ended before.
func (c *Conn) fail(code int, reason string) error {
	if c.err == nil {
		if c.thread.Loop().Stopping() {
			c.limitClose()
		}
		c.control(opClose, closePayload(code, reason))
	}
	if c.err == nil {
		c.err = &CloseError{Code: code, Text: reason}
	}
	return c.err
}

// failProtocol fails the connection of a peer that breaks the protocol or a limit (RFC 6455 section
// 7.1.7), and waits for no answer.
func (c *Conn) failProtocol(e *CloseError) error {
	if c.err == nil {
		_ = c.fail(e.Code, e.Text)
		c.framingLost = true
	}
	return c.err
}

// Close closes the connection with a code and a reason for the peer, cut to 123 bytes. It waits
// five seconds at most for the peer's answer, and drops messages that arrive before it; without an
// answer it returns an error. If the connection has ended already, it sends nothing. A code that
// must not be sent becomes InternalError. Close also closes the socket of a connection that was
// dialed; other sockets are closed when the handler has returned.
func (c *Conn) Close(code int, reason string) error {
	if code != NoStatus && !validCode(code) {
		code = InternalError
	}
	if c.expected.server {
		defer c.transport().Close() // also if the thread is killed
	}
	defer func() { // also when the thread was killed, and the socket has no room for the close frame
		if c.err == nil {
			_ = c.setError(errCut)
		}
		c.releaseMessages()
	}()
	_ = c.fail(code, strings.ToValidUTF8(reason[:min(len(reason), maxControl-2)], ""))
	return c.finish()
}

// end is deferred: the handler has returned, or panicked, or was killed.
func (c *Conn) end() {
	code := NormalClosure
	switch {
	case c.thread.Loop().Stopping():
		code = GoingAway
	case conn.TakeoverOf(c.thread).Panicked():
		code = InternalError
	}
	defer func() { // also when Close is killed
		if c.err != nil {
			conn.TakeoverOf(c.thread).SetCloseCode(c.err.Code)
		}
	}()
	_ = c.Close(code, "")
}

// finish waits until the peer has answered a close frame, or has left. To close a socket with
// unread input resets it, and a reset can take the last frame away from a peer that has not read it
// yet.
func (c *Conn) finish() error {
	c.releaseMessages()
	if c.closeReceived {
		return nil
	}
	c.closeReceived = true // or none will be
	if c.framingLost {
		c.closeWrite()
	}
	limit := closeWait
	if c.thread.Loop().Stopping() {
		limit /= 10 // a stop does not wait long for clients that keep their end open
	}
	until := time.Now().Add(limit) // the loop's time is that of its turn
	for late := false; !c.drop(); {
		if late { // also where the peer sends without end
			return loop.ErrDeadlineExceeded
		}
		left := until.Sub(c.thread.Loop().Time())
		late = left <= 0
		switch {
		case c.fill(): // if this loop is late, input may have come in time
		case c.inputEnded:
			return c.extra.readErr
		case !late:
			if err := c.link.AwaitRead(left); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseMessages frees the buffers of a connection that has ended.
func (c *Conn) releaseMessages() {
	c.release()
	c.dropWriteWindow()
	c.dropReadWindow()
	if c.extra != nil && c.extra.box != nil {
		c.extra.box.end(c.err)
	}
}

// drop drops the input in the buffer, and reports whether it had a close frame.
func (c *Conn) drop() bool {
	for c.r < c.w {
		if !c.begun && !c.framingLost {
			h, n, err := c.next()
			switch {
			case err != nil:
				c.framingLost = true
			case n == 0:
				return false
			case h.opcode == opClose:
				return true
			case !h.control():
				c.expected.continuation = !h.fin
			}
			c.use(n)
			c.frame, c.at, c.begun = h, 0, true
		}
		n := int64(c.w - c.r)
		if !c.framingLost {
			n = min(c.frame.length-c.at, n)
			c.at += n
			c.begun = c.at < c.frame.length
		}
		c.use(int(n))
	}
	return false
}

// closeWrite shuts the sending half of the connection.
func (c *Conn) closeWrite() {
	if c.tls != nil {
		_ = c.tls.CloseWrite()
	}
	_ = c.link.CloseWrite()
}
