package fastcgi

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/cgi"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/stream"
)

// begin fills the buffer with the parameters and the first bytes of the body, as far as these are
// there.
func (c *call) begin() error {
	c.buf = relay.TakeBuffer()
	out, err := c.appendHead(c.buf[:0])
	if err != nil {
		return err
	}
	if c.out, err = c.appendBody(out); err == stream.ErrWouldBlock {
		c.out, err = out, nil // none of an unspooled body has come, and the application may not wait
	}
	return err
}

// appendBody appends a record with the next piece of the body, if out has room for one, and behind
// the last piece the end. An empty buffer has room for both.
func (c *call) appendBody(out []byte) ([]byte, error) {
	const around = 2 * wire.HeaderLen // the headers of the piece and of the end
	room := cap(out) - len(out) - around
	if c.Left > 0 && room > 0 {
		n := int(min(c.Left, int64(room), wire.StdinContent))
		at := len(out) + wire.HeaderLen
		n, err := c.ReadBody(out[at : at+n])
		if err != nil {
			return nil, relay.BodyError(err)
		}
		out = wire.AppendHeader(out, wire.Stdin, n)
		out = out[:len(out)+n]
	}
	if c.Left == 0 && cap(out)-len(out) >= wire.HeaderLen {
		out = wire.AppendStdinEnd(out)
		c.end = true
	}
	return out, nil
}

// safe reports whether a request of that method may be sent twice, and so on a kept connection, which
// the application may end at the same moment. Of others nothing tells whether the script has run.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// dropBody lets go of the body, and of the file that may hold it.
func (c *call) dropBody() {
	if f, ok := c.Body.(io.Closer); ok {
		_ = f.Close()
	}
	c.Body = nil
}

// free lets go of the buffer.
func (c *call) free() {
	if c.buf != nil {
		relay.PutBuffer(c.buf)
		c.buf, c.out = nil, nil
	}
}

// Exchange implements relay.Talk. It sends the request and takes the response, both at once: an
// application may write before it has read all. A peer that first wrote all and only then read would
// wait for ever, as would the application.
func (c *call) Exchange() error {
	defer c.logStderr()
	c.Stream.SetNoWait(true)
	c.dec.Reset()
	c.lost, c.end, c.extra, c.readable, c.writable = false, false, false, nil, nil
	// Parameters that cannot be sent are found out only here, with a connection at hand. If they
	// were written earlier, the call would hold their buffer while it connects.
	if err := c.begin(); err != nil {
		return err
	}
	for {
		sent := false
		if c.buf != nil || c.starved() {
			var err error
			if sent, err = c.send(); err != nil {
				return err
			}
		}
		if err := c.pour(); err != nil {
			return err
		}
		if c.Stream.Unread() && !c.Flow.Full() {
			if err := c.receive(); err != nil || c.dec.Done() {
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
func (c *call) wait() error {
	switch {
	case c.Flow.Stuck() || c.starved():
		return c.await()
	case c.buf != nil:
		return c.Stream.AwaitReadWrite(c.m.set.SendTimeout)
	}
	return c.Stream.AwaitRead(c.m.set.ReadTimeout)
}

// send sends as much of the buffer as the socket has room for, and fills an empty buffer first. It
// reports whether there was room. If the upstream does not take the request any more, its answer
// still counts: so that is no error.
func (c *call) send() (sent bool, err error) {
	if c.buf == nil {
		c.buf = relay.TakeBuffer()
	}
	if len(c.out) == 0 {
		if c.out, err = c.appendBody(c.buf[:0]); err != nil {
			// the call waits for the client's next bytes without a buffer
			if err == stream.ErrWouldBlock {
				c.free()
				err = nil
			}
			return false, err
		}
	}
	n, err := c.Stream.TryWrite(c.out)
	switch {
	case err == nil:
	case errors.Is(err, stream.ErrWouldBlock):
		return false, nil
	default:
		c.lost = true
		c.free()
		return true, nil
	}
	if c.out = c.out[n:]; len(c.out) == 0 && c.end {
		c.free()
		if !safe(c.Req.Method()) {
			c.dropBody() // the call does not send it again, and its file may be large
		}
	}
	return true, nil
}

// receive takes the bytes that have come.
func (c *call) receive() error {
	buf := relay.TakeBuffer()
	defer relay.PutBuffer(buf) // also when the thread is killed
	for got := 0; ; {
		n, err := c.Stream.Read(buf[:])
		switch {
		case errors.Is(err, stream.ErrWouldBlock):
			return c.pause()
		case err == io.EOF:
			return upstream.ErrCut
		case err != nil:
			return fmt.Errorf("%w: %w", upstream.ErrCut, err)
		}
		if !c.Heard {
			c.Heard = true
			c.Up.Spoke()
			if len(c.FailStatus) == 0 {
				c.Up.Works()
			}
		}
		if err := c.take(buf[:n]); err != nil {
			return err
		}
		if c.dec.Done() {
			return nil
		}
		if got += n; c.Flow.Full() || got >= relay.AtOnce {
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

// take takes the records in p apart.
func (c *call) take(p []byte) error {
	for {
		typ, data, n, err := c.dec.Next(p)
		p = p[n:]
		switch {
		case err != nil:
			return err
		case typ == wire.Stdout:
			err = c.stdout(data)
		case typ == wire.Stderr:
			c.stderr.add(data)
		case typ == wire.EndRequest:
			c.extra = len(p) > 0
			return c.ended()
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ended judges a response at its END_REQUEST. It lets go of the connection at once: PHP-FPM's
// worker waits for that.
func (c *call) ended() error {
	end := c.dec.End()
	switch err := end.Err(); {
	case err != nil && c.answer.begun:
		// Not wrapped: the head has its status already.
		return fmt.Errorf("the application has given up its response: %v", err)
	case err != nil:
		return err
	case !c.answer.begun:
		return cgi.ErrIncomplete
	}
	if end.AppStatus != 0 {
		c.Log.Info("fastcgi: application ended with an exit code", "request_id", c.Req.ID(),
			"script", c.target.Name, "code", end.AppStatus)
	}
	if n := c.dec.Skipped(); n > 0 {
		c.Log.Warn("fastcgi: records that have no place in a response", "request_id", c.Req.ID(),
			"upstream", c.Up.Name(), "number", n, "last", c.dec.Record().Type)
	}
	if c.m.set.KeepConn && c.dec.Reusable() && c.end && c.buf == nil && !c.lost && !c.extra {
		c.Up.Keep(c.Stream, 0)
		c.Stream = nil
	}
	c.Close()
	if c.short() {
		return errShort
	}
	return nil
}
