package gateway

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// begin fills the buffer with the variables and the first bytes of the body, as far as these are
// there.
func (c *Call) begin() error {
	c.buf = c.Req.Thread.Loop().Layer().TakeBuffer()
	out, err := c.protocol.AppendHead(c.buf[:0])
	if err != nil {
		return err
	}
	if c.out, err = c.protocol.AppendBody(out); err == stream.ErrWouldBlock {
		c.out, err = out, nil // none of an unspooled body has come, and the application may not wait
	}
	return err
}

// dropBody releases the body, and the file that may hold it.
func (c *Call) dropBody() {
	if f, ok := c.Body.(io.Closer); ok {
		_ = f.Close()
	}
	c.Body = nil
}

// free releases the buffer.
func (c *Call) free() {
	if c.buf != nil {
		c.Req.Thread.Loop().Layer().PutBuffer(c.buf)
		c.buf, c.out = nil, nil
	}
}

// RoundTrip implements reverseproxy.RoundTripper. It sends the request and takes the response, both
// at once: an application may write before it has read all. A peer that first wrote all and only
// then read would wait for ever, as would the application.
func (c *Call) RoundTrip() error {
	defer c.protocol.Pause()
	c.Stream.SetNoWait(true)
	c.sendStopped, c.End, c.done, c.readable, c.writable = false, false, false, nil, nil
	// Parameters that cannot be sent are found out only here, with a connection at hand. If they
	// were written earlier, the call would hold their buffer while it connects.
	if err := c.begin(); err != nil {
		return err
	}
	for {
		sent := false
		if c.buf != nil || c.awaitsBody() {
			var err error
			if sent, err = c.send(); err != nil {
				return err
			}
		}
		if c.Flow.HasHeld() {
			if err := c.writeHeld(); err != nil {
				return err
			}
		}
		if c.Stream.Unread() && !c.Flow.Full() {
			if err := c.receive(); err != nil || c.done {
				return err
			}
		}
		if sent && c.buf != nil || c.Stream.Unread() && !c.Flow.Full() {
			continue
		}
		if err := c.wait(); err != nil {
			return err
		}
	}
}

// wait waits until bytes can move in one of the directions. The limits are for connections on which
// no byte moves.
func (c *Call) wait() error {
	var err error
	late := c.timeout()
	switch {
	case c.Flow.ClientFull() || c.awaitsBody():
		err = c.await(late.After)
		for c.awaitsBody() && err == loop.ErrDeadlineExceeded {
			left := c.SincePing(c.ReadTimeout, 0, true)
			if left <= 0 {
				break
			}
			err = c.await(left)
		}
	case c.sending():
		err = c.Stream.AwaitReadWrite(late.After)
	default:
		err = c.Stream.AwaitRead(late.After)
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return late
	}
	return err
}

// sending reports that the call waits for room for the rest of the request.
func (c *Call) sending() bool { return c.buf != nil || c.Stream.Remainder() > 0 }

// timeout returns the limit of a wait, as the error of a longer one.
func (c *Call) timeout() reverseproxy.Timeout {
	if c.sending() {
		return reverseproxy.Timeout{Key: "send_timeout", After: c.SendTimeout}
	}
	return reverseproxy.Timeout{Key: "read_timeout", After: c.ReadTimeout, BothSides: c.awaitsBody()}
}

// send sends as much of the buffer as the socket has room for, and fills an empty buffer first. It
// reports whether there was room. If the upstream does not take the request any more, its answer
// still counts: so that is no error.
func (c *Call) send() (sent bool, err error) {
	if c.buf == nil {
		c.buf = c.Req.Thread.Loop().Layer().TakeBuffer()
	}
	if len(c.out) == 0 {
		if c.out, err = c.protocol.AppendBody(c.buf[:0]); err != nil {
			// the call waits for the client's next bytes without a buffer
			if err == stream.ErrWouldBlock {
				c.free()
				err = nil
			}
			return false, err
		}
	}
	if c.End && c.Retryable && c.Stream.PutOff(c.out) {
		c.free()
		return true, nil
	}
	n, err := c.Stream.TryWrite(c.out)
	switch {
	case err == nil:
	case errors.Is(err, stream.ErrWouldBlock):
		return false, nil
	default:
		c.sendStopped = true
		c.free()
		return true, nil
	}
	if c.out = c.out[n:]; len(c.out) == 0 && c.End {
		c.free()
		if !idempotent(c.Req.Method()) {
			c.dropBody() // the call does not send it again, and its file may be large
		}
	}
	return true, nil
}

// receive takes the bytes that have come.
func (c *Call) receive() error {
	c.Stream.GiveWay()
	buf := c.Req.Thread.Loop().Layer().TakeBuffer()
	defer c.Req.Thread.Loop().Layer().PutBuffer(buf) // also when the thread is killed
	for got := 0; ; {
		n, err := c.Stream.Read(buf[:])
		switch {
		case errors.Is(err, stream.ErrWouldBlock):
			return c.pause()
		case err == io.EOF:
			return c.protocol.ConnectionClosed()
		case err != nil:
			return fmt.Errorf("%w: %w", upstream.ErrCut, err)
		}
		if !c.GotFirstByte {
			c.GotFirstByte = true
			c.Up.GotFirstByte()
		}
		if err := c.protocol.Take(buf[:n]); err != nil {
			return err
		}
		if c.done {
			return nil
		}
		if got += n; c.Flow.Full() || got >= reverseproxy.ReadAtOnce || c.Stream.Due() {
			if !c.Stream.Unread() {
				return c.pause() // the call may wait now, and what has come must not
			}
			return nil
		}
		if c.buf != nil && !c.Stream.Unread() {
			return c.pause()
		}
	}
}

// Ended ends a response whose header has arrived, and checks it. It releases the connection at
// once: PHP-FPM's worker waits for that. With keep, another request may use the connection.
func (c *Call) Ended(keep bool) error {
	c.done = true
	if keep && c.End && c.buf == nil && !c.sendStopped {
		c.Keep(0)
	}
	c.Close()
	if c.short() {
		return errShort
	}
	return nil
}
