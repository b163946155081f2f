package conn

import (
	"io"
	"net/http"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// The thread's side of a crossing.

// serve carries body and answer until the handler has returned. It keeps waiting for that when the client has left: a
// handler that takes no notice counts as a connection.
func (c *crossing) serve(req *Request, resp *Response) int {
	x := req.x
	req.KeepWaiting(true)
	told := false  // of a panic of the handler's
	defer func() { // also when the thread is killed
		c.duplex.drop()
		_ = x.stream.SetReadDeadline(zeroTime)
		c.mu.Lock()
		defer c.mu.Unlock()
		if e, ok := c.panicked.(*loop.PanicError); ok && !told {
			x.set.Logger.Error("panic in a handler", "panic", e.Value, "target", c.req.RequestURI,
				"stack", string(e.Stack))
		}
		c.left = true
		c.cut(loop.ErrClientGone)
	}()
	c.duplex.begin(x)
	for {
		c.setLimits(x)
		_, _ = c.duplex.SendHeld() // first: take leaves what there is no room for, and waits for no news of it
		returned, hijack := c.take(resp)
		if returned {
			break
		}
		if hijack && c.handOver(req, resp) {
			told = true // run does, from now on
			return resp.status
		}
		asked := c.give(&req.body)
		if asked {
			_ = x.flush() // there may be 100 (Continue) in it
		}
		if x.writeErr != nil { // what was held cannot be sent any more
			c.lost(req, x.writeErr)
		}
		c.wait(asked)
	}
	x.settle()
	if c.panicked != nil {
		told = true
		panic(c.panicked)
	}
	return resp.early
}

// setLimits sets the deadlines that the handler has asked for.
func (c *crossing) setLimits(x *exchange) {
	c.mu.Lock()
	limits := c.limits
	c.mu.Unlock()
	_ = x.stream.SetReadDeadline(limits.read)
	_ = x.stream.SetWriteDeadline(limits.write)
}

// take takes what the handler has for the client, unless the client has not taken the last of it yet, and reports
// whether the handler has returned, or waits for the connection.
func (c *crossing) take(resp *Response) (returned, hijack bool) {
	x, held := resp.x, c.duplex.Held()
	c.mu.Lock()
	c.news = false
	status, header := c.status, c.header
	var informs []interim
	var out []byte
	push := c.push
	returned, hijack = c.returned, c.hijack.wanted
	over := returned || hijack
	if over || held == 0 {
		informs, c.interim = c.interim, nil
	}
	if over || held == 0 && (push || len(c.out) == pipeSize) {
		if !c.begun {
			c.begun, c.first = true, len(c.out)
		}
		out, c.out, c.outBuf = c.out, c.outBuf[:0], c.out
		c.push = false
		resp.trailer = c.trailer
	} else {
		push = false
	}
	first := min(c.first, len(out))
	if len(informs) > 0 || len(out) > 0 {
		c.cond.Broadcast() // there is room
	}
	c.mu.Unlock()

	for _, i := range informs {
		resp.inform(i.status, i.header)
	}
	if status != 0 && !resp.std {
		resp.open(status, header)
	}
	switch {
	case over && !push && !resp.headSent:
		_, _ = resp.Write(out) // a whole one
	case len(out) > 0 || push:
		var err error
		if !resp.headSent { // and the type is told by what was there when the handler flushed
			err = resp.stream(out[:first])
			out = out[first:]
		}
		if err == nil {
			err = resp.stream(out)
		}
		if err == nil && push {
			err = x.flush()
		}
		if err != nil {
			c.lost(&x.req, err)
		}
	}
	return returned, hijack
}

// give reads what the handler asks for, and reports whether that is still to come.
func (c *crossing) give(b *Body) bool {
	c.mu.Lock()
	asked := c.asked && !c.closed
	c.mu.Unlock()
	if !asked {
		return false
	}
	if c.inBuf == nil {
		size := int64(pipeSize)
		if !b.chunked {
			size = min(size, b.left)
		}
		c.inBuf = make([]byte, size)
	}
	n, err := b.Read(c.inBuf)
	if err == stream.ErrWouldBlock {
		return true
	}
	if err == nil {
		err = b.err // there will be no more
	}
	var trailer http.Header
	if err == io.EOF && b.chunked {
		trailer = b.trailer()
	}
	c.got(c.inBuf[:n], err, trailer)
	return false
}

func (c *crossing) got(in []byte, err error, trailer http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = false
	c.in, c.inErr, c.inTrailer = in, err, trailer
	c.cond.Broadcast()
}

// lost tells the handler that nobody hears it any more.
func (c *crossing) lost(req *Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outErr == nil {
		c.outErr = err
		c.cond.Broadcast()
		req.cancel(loop.ErrClientGone)
	}
}

// wait waits for news of the handler, for input if that was asked for, and for room if the client has left none.
func (c *crossing) wait(asked bool) {
	if c.duplex.Await(-1, asked, c.self[:]...) != nil {
		panic(http.ErrAbortHandler) // the thread is not to wait any more
	}
}
