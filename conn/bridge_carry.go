package conn

import (
	"io"
	"net/http"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// The thread's side of a bridge.

// serve runs the handler, and carries body and answer until it has returned. It waits for that even
// if the client has left, so that a handler that does not notice still counts as a connection.
func (c *bridge) serve(req *Request, resp *Response) int {
	x := req.x
	logged := false // a panic of the handler was passed on
	defer func() {  // also when the thread is killed
		c.duplex.drop()
		x.via.setReadDeadline(zeroTime)
		c.mu.Lock()
		defer c.mu.Unlock()
		if e, ok := c.panicked.(*loop.PanicError); ok && !logged {
			x.c.port.server.panics.Add(1)
			x.set.Logger.Error("conn: panic in a handler",
				append(c.writer.about("panic", e.Value), "stack", string(e.Stack))...)
		}
		c.left, c.resp = true, nil // the handler may go on for hours, with a hijacked connection
		c.cut(loop.ErrClientGone)
		release(&c.out)
		release(&c.outBuf)
		release(&c.inBuf)
	}()
	req.KeepWaiting(true)
	if c.begin() {
		if c.panicked != nil {
			logged = true
			panic(c.panicked)
		}
		return c.answer(resp)
	}
	c.duplex.begin(x)
	c.resp = resp
	for {
		// This comes first: take leaves the handler's output alone while something is held, and
		// nothing would call take again when that has gone out.
		_, _ = c.duplex.SendHeld()
		returned, hijack := c.take(resp)
		if returned {
			break
		}
		if hijack && c.handOver(req, resp) {
			logged = true // from now on run logs a panic
			return resp.status
		}
		asked := c.give(&req.body)
		if asked {
			_ = x.via.flush() // it may contain 100 (Continue)
		}
		if err := x.via.writeError(); err != nil { // what was held can no longer be sent
			c.lost(req, err)
		}
		c.wait(asked)
	}
	x.finishDuplex()
	if c.panicked != nil {
		logged = true
		panic(c.panicked)
	}
	return resp.early
}

// begin runs the handler, in place or on a goroutine, and reports whether it has returned.
func (c *bridge) begin() bool {
	t := c.thread.Layer()
	if !c.habit.short() || !t.MayRunInPlace() {
		t.Loop().Layer().StartGoroutine(func() {
			growStack()
			c.run(loop.InPlace{})
		})
		return false
	}
	took, returned := t.RunInPlace(c.run)
	c.habit.noteInPlace(took, returned)
	return returned
}

// answer sends the answer of a handler that has returned in place.
func (c *bridge) answer(resp *Response) int {
	resp.x.via.setWriteDeadline(c.limits.write)
	if resp.manner == native {
		resp.open(c.status, c.header)
	}
	resp.trailer = c.trailer
	_, _ = resp.Write(c.out)
	return resp.early
}

// take takes what the handler has for the client, unless earlier output is still held, and reports
// whether the handler has returned, or waits in Hijack.
func (c *bridge) take(resp *Response) (returned, hijack bool) {
	x, held := resp.x, c.duplex.Held()
	room := x.via.room()
	c.mu.Lock()
	c.changed = false
	status, header, limit := c.status, c.header, c.limits.write
	var informs []interim
	var out []byte
	push := c.push
	returned, hijack = c.returned, c.hijack.wanted
	over := returned || hijack
	if over || held == 0 {
		informs, c.interim = c.interim, nil
	}
	if full := len(c.out) == c.room; over || held == 0 && (push || full) {
		if !c.begun {
			c.begun, c.first = true, len(c.out)
		}
		out, c.out, c.outBuf = c.out, c.outBuf[:0], c.out
		c.push = false
		switch room -= len(out); {
		case room < pipeSize/2:
			c.room = narrowPipe
			c.out = slim(c.out)
		case full && room >= widePipe:
			c.room = widePipe
		default: // a handler that flushes may now wait for long
			c.room = pipeSize
			release(&c.out)
		}
		resp.trailer = c.trailer
	} else {
		push = false
	}
	first := min(c.first, len(out))
	if len(informs) > 0 || len(out) > 0 {
		c.cond.Broadcast() // there is room
	}
	c.mu.Unlock()

	x.via.setWriteDeadline(limit)
	for _, i := range informs {
		resp.inform(i.status, i.header)
	}
	if status != 0 && resp.manner == native {
		resp.open(status, header)
	}
	switch {
	case over && !push && !resp.HeadSent():
		_, _ = resp.Write(out) // the whole answer
	case len(out) > 0 || push:
		var err error
		if !resp.HeadSent() { // the first piece, of which the type is detected, is sent as flushed
			err = resp.stream(out[:first])
			out = out[first:]
		}
		if err == nil {
			err = resp.stream(out)
		}
		if err == nil && push {
			err = resp.push()
			resp.rest()
		}
		if err != nil {
			c.lost(&x.req, err)
		}
		if c.duplex.Held() > 0 { // a copy is
			c.outBuf = slim(c.outBuf)
		} else if push {
			release(&c.outBuf)
		}
	}
	return returned, hijack
}

// give reads what the handler asks for, and reports whether that has still to arrive. The deadline
// is looked at together with the question: the handler may just have set one.
func (c *bridge) give(b *Body) bool {
	c.mu.Lock()
	asked, limit := c.wantsInput && !c.closed, c.limits.read
	c.mu.Unlock()
	if !asked {
		return false
	}
	b.x.via.setReadDeadline(limit)
	if c.inBuf == nil {
		size := int64(pipeSize)
		if !b.chunked() && b.replacement == nil {
			size = min(size, b.x.req.ContentLength()-b.read)
		}
		c.inBuf = make([]byte, size)
	} else if c.filled && len(c.inBuf) < widePipe {
		c.inBuf = wideBuffers.Get().(*[widePipe]byte)[:]
	}
	n, err := b.Read(c.inBuf)
	c.filled = n > len(c.inBuf)/2 // framing takes some of it
	if d := b.x.via.direct(); d != nil {
		c.more = d.more()
	}
	if err == stream.ErrWouldBlock {
		return true
	}
	if err == nil {
		err = b.ended() // there will be no more
	}
	var trailer http.Header
	if err == io.EOF && b.chunked() && b.state == bodyEnded {
		trailer = b.trailer()
	}
	c.got(c.inBuf[:n], err, trailer)
	return false
}

func (c *bridge) got(in []byte, err error, trailer http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wantsInput = false
	c.in, c.inErr, c.inTrailer = in, err, trailer
	c.cond.Broadcast()
}

// lost makes the handler's writes fail, and ends its context: the client gets no more.
func (c *bridge) lost(req *Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outErr == nil {
		c.outErr = err
		c.cond.Broadcast()
		req.x.canceled(loop.ErrClientGone)
	}
}

// wait waits for a change of the handler's, for input if the handler wants some, and for room if
// something is held.
func (c *bridge) wait(asked bool) {
	t := c.duplex.x.req.Thread
	budget := t.Layer().SetBudget(0) // which the handler's context has
	despite := t.Layer().WaitDespiteFailures(c.failed)
	err := c.duplex.x.via.awaitDuplex(-1, asked, c.self[:])
	t.Layer().WaitDespiteFailures(despite)
	t.Layer().SetBudget(budget)
	if err == loop.ErrCanceled && !c.failed { // perhaps a thread's failure: the handler has to end
		c.failed = true
		c.duplex.x.canceled(err)
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the thread's waits are refused
	}
}
