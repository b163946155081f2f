package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream/httpclient"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// RoundTrip implements reverseproxy.RoundTripper. It sends the request and takes the answer, both
// at once: an upstream may answer before it has read all, and may read no more until its answer is
// read.
func (c *call) RoundTrip() error {
	c.x.HeadLimit, c.x.KeepTrailer, c.x.Lenient = int(c.MaxHeaderSize), true, c.m.set.Lenient
	if st := c.Up.Mux(); st != nil {
		c.x.BeginMux(st, c.Req.Method())
	} else {
		c.x.Begin(c.Stream, c.Up.Transport(c.Stream), c.Req.Method())
	}
	c.sent, c.sendStopped, c.begun, c.pushed = c.Left == 0, false, 0, false
	if err := c.sendHead(); err != nil {
		return err
	}
	return c.move()
}

// clientGone deals with the error of a write to the client. With ignore_client_abort the exchange
// goes on without a client that takes no more, and there is no error. That is decided where the
// error comes up: a return from take would leave bytes of the upstream behind, which nobody takes
// any more.
func (c *call) clientGone(err error) error {
	if err == nil || !c.IgnoreClientAbort || !errors.Is(err, reverseproxy.ErrClient) {
		return err
	}
	c.gone = true
	c.Flow.Discard()
	return nil
}

// dropsBody reports that the rest of the answer is read for the connection's sake alone.
func (c *call) dropsBody() bool { return c.Flow.Discarded() && !c.gone }

// move moves bytes in both directions until the answer is complete.
func (c *call) move() error {
	for {
		moved, empty, expected := false, false, c.expects
		var err error
		if !c.sent || c.x.Held() > 0 {
			if moved, err = c.send(); err != nil {
				return err
			}
		}
		if c.Flow.HasHeld() && !c.gone {
			if err := c.clientGone(c.Flow.WriteHeld(c.headed)); err != nil {
				return err
			}
		}
		switch {
		case c.Flow.Full():
		case !c.x.Unread(): // as right behind a request: no buffer for that
			empty, err = true, c.pause()
		default:
			empty, err = c.receive()
		}
		if err != nil || c.done {
			return err
		}
		if moved || !empty && !c.Flow.Full() || expected && !c.expects {
			continue
		}
		if err := c.wait(); err != nil || c.done {
			return err
		}
	}
}

// sendHead sends the head, and with it the first bytes of the body.
func (c *call) sendHead() error {
	buf := c.Req.Thread.Loop().Layer().TakeBuffer()
	defer c.Req.Thread.Loop().Layer().PutBuffer(buf) // also when the thread is killed
	out := c.appendHead(buf[:0])
	if c.x.Mux() {
		c.x.Open(out, c.sent)
		out = buf[:0]
	}
	if c.expects {
		c.expired = time.Now().Add(expectFor)
	} else if !c.sent && len(out) < requestRoom && cap(out) == loop.BufferSize {
		var err error
		if out, err = c.appendBody(out); err != nil && err != stream.ErrWouldBlock {
			return err
		}
	}
	c.write(out)
	return nil
}

// send sends the next piece of the body. It reports whether it has sent anything, or what it held.
func (c *call) send() (moved bool, err error) {
	if held := c.x.Held(); held > 0 {
		left, err := c.x.SendHeld()
		if err != nil {
			c.sendStopped = true
		}
		if left > 0 {
			return left < held, nil
		}
		moved = true
	}
	if c.sent || c.sendStopped || c.expects {
		return moved, nil
	}
	buf := c.Req.Thread.Loop().Layer().TakeBuffer()
	defer c.Req.Thread.Loop().Layer().PutBuffer(buf) // also when the thread is killed
	out, err := c.appendBody(buf[:0])
	if len(out) > 0 || c.sent {
		c.write(out)
		moved = true
	}
	if err == stream.ErrWouldBlock {
		err = nil
	}
	return moved, err
}

// write writes to the upstream. If that does not take the request any more, its answer still
// counts: so that is no error.
func (c *call) write(p []byte) {
	if len(p) > 0 && !(c.sent && c.Retryable && c.x.PutOff(p)) {
		if _, err := c.x.Write(p); err != nil {
			c.sendStopped = true
		}
	}
	if c.x.Mux() && c.sent {
		c.x.Finish(c.trailers())
	}
}

// trailers returns the fields behind the body, nil if they cannot be known.
func (c *call) trailers() func(func(name, value string)) {
	b, ok := c.Body.(*conn.Body)
	if !ok {
		return nil
	}
	return func(add func(name, value string)) {
		b.Trailer(func(name, value string) {
			if c.passes(name) {
				add(name, value)
			}
		})
	}
}

// appendBody appends the next piece of the body, and behind the last piece the end. The error is
// stream.ErrWouldBlock if the client has to send more first.
func (c *call) appendBody(out []byte) ([]byte, error) {
	var err error
	if c.Left != 0 {
		out, err = http1.AppendPiece(out, c.ReadBody, c.chunked() && !c.x.Mux())
	}
	switch {
	case c.Left < 0 && err == io.EOF:
		if c.Left, err = 0, nil; !c.x.Mux() {
			out = http1.AppendEnd(out, c.trailers())
		}
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	c.sent = c.Left == 0
	if err != nil {
		err = reverseproxy.BodyError(err)
	}
	return out, err
}

// awaitsBody reports that the call has nothing to send until the client's next bytes come.
func (c *call) awaitsBody() bool {
	return c.Unspooled && !c.sent && !c.sendStopped && !c.expects && c.x.Held() == 0
}

// wait waits until bytes can move in one of the directions. The limits are for connections on which
// no byte moves.
func (c *call) wait() error {
	limit, full := c.limit(), c.Flow.Full()
	expects := c.expects && c.x.Held() == 0 // otherwise the limit is that of sending
	starved := c.awaitsBody()
	for {
		var err error
		if c.Flow.ClientFull() && !c.gone || starved {
			var room [2]loop.Source
			sources := c.x.Sources(room[:0], !full)
			if full && limit < 0 {
				return c.Flow.AwaitRoom(&c.Up, starved, sources...)
			}
			err = c.Flow.Await(limit, starved, sources...)
		} else {
			err = c.x.Await(limit)
		}
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case c.dropsBody():
			return c.ended()
		case expects:
			return c.proceed()
		}
		late := c.timeout()
		if limit = 0; err != loop.ErrBudget && c.headed && c.x.Held() == 0 {
			limit = c.SincePing(late.After, c.x.LastPing(), starved)
		}
		if limit <= 0 {
			return late
		}
	}
}

// limit returns how long the next wait may take.
func (c *call) limit() time.Duration {
	switch {
	case c.dropsBody():
		return max(time.Until(c.dropUntil), 0)
	case c.x.Held() > 0:
	case c.Flow.Full(), c.awaitsBody() && !c.headed:
		return -1 // how long the client may take is for the server to say
	case c.expects:
		return max(time.Until(c.expired), 0)
	case !c.headed && c.begun > 0:
		// A head that comes byte by byte has to be complete in that time, too.
		return max(c.timeout().After-(loop.Now()-c.begun), 0)
	}
	return c.timeout().After
}

// timeout returns the error of a wait that has taken too long.
func (c *call) timeout() reverseproxy.Timeout {
	set := &c.m.set
	switch {
	case c.x.Held() > 0:
		return reverseproxy.Timeout{Key: "send_timeout", After: set.SendTimeout}
	case !c.headed && c.begun == 0:
		return reverseproxy.Timeout{Key: "first_byte_timeout", After: set.FirstByteTimeout}
	}
	return reverseproxy.Timeout{Key: "read_timeout", After: set.ReadTimeout, BothSides: c.awaitsBody()}
}

// receive takes the bytes that have come, and reports whether those were all. An upstream that is
// always ahead must hold up neither the rest of the request nor the client's next bytes.
func (c *call) receive() (empty bool, err error) {
	c.x.GiveWay()
	buf := c.Req.Thread.Loop().Layer().TakeBuffer()
	defer c.Req.Thread.Loop().Layer().PutBuffer(buf) // also when the thread is killed
	for got := 0; ; got += len(buf) {
		if got >= reverseproxy.ReadAtOnce || c.Flow.Full() || got > 0 && c.x.Due() {
			return false, nil
		}
		switch err := c.x.Receive(buf[:]); {
		case err == stream.ErrWouldBlock:
			return true, c.pause()
		case err != nil && c.dropsBody():
			return false, c.ended()
		case err != nil:
			return false, err
		}
		if c.begun == 0 {
			c.begun, c.GotFirstByte = c.Req.Thread.Loop().Now(), true
			c.Up.GotFirstByte()
		}
		if err := c.take(); err != nil || c.done {
			return false, err
		}
		if c.x.Held() > 0 {
			return false, c.pause()
		}
	}
}

// take takes what was received apart.
func (c *call) take() error {
	for {
		e, data, err := c.x.Next()
		switch {
		case err != nil && c.dropsBody():
			return c.ended()
		case err != nil:
			if errors.As(err, new(*http1.Error)) { // whose status is for a request
				err = fmt.Errorf("malformed answer: %v", err)
			}
			return err
		case e == httpclient.More:
			return nil
		case e == httpclient.Interim:
			err = c.inform()
		case e == httpclient.Final:
			err = c.open()
		case e == httpclient.Data && c.dropsBody():
			if c.dropped += len(data); c.dropped > dropBytes {
				return c.ended()
			}
		case e == httpclient.Data:
			c.pushed = false
			err = c.clientGone(c.Flow.Write(data))
		case e == httpclient.Done:
			return c.ended()
		}
		if err != nil {
			return err
		}
	}
}

// pause is called when the upstream has sent all for the moment. What has come goes out, as the
// next byte may be a long time off.
func (c *call) pause() error {
	if !c.headed || c.pushed {
		return nil
	}
	c.pushed = true
	return c.clientGone(c.Flow.Flush())
}

// ended is called at the end of the answer, or when the rest is of no interest. It lets go of the
// connection at once: another request may wait for it.
func (c *call) ended() error {
	c.done = true
	if c.Status == 101 {
		c.unparsed = bytes.Clone(c.x.Unparsed())
		return nil
	}
	if c.trailer() {
		// They go out behind chunks only, so the head has to go out first.
		if err := c.clientGone(c.Flow.Flush()); err != nil {
			return err
		}
	}
	if c.x.Endless() && !c.Flow.Discarded() {
		c.Resp.Layer().MarkEndUncertain()
	}
	if c.sent && !c.sendStopped && c.m.set.MaxIdle > 0 && c.x.Reusable() {
		c.x.End()
		if status := c.x.Head.Status; status == 204 || status == 304 || c.Req.Method() == "HEAD" {
			c.Up.ExpectStrayInput()
		}
		c.Keep(c.x.KeepFor())
	} else {
		c.Close()
	}
	return nil
}

// trailer passes on the fields behind the body, and reports whether there are any.
func (c *call) trailer() (any bool) {
	if c.Flow.Discarded() || !c.x.Head.Chunked {
		return false
	}
	c.x.Trailer(func(name, value []byte) {
		if name := string(name); c.returns(name) {
			any = true
			c.Resp.AddTrailer(name, string(value))
		}
	})
	return any
}
