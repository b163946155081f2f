package conn

import (
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

const (
	// pipeSize bounds what has been taken from one side and not been given to the other, in each direction.
	pipeSize = 32 << 10

	maxInterim = 16 // interim responses, likewise
)

// crossing is what a handler off the loop and its request's thread have in common: two bounded pipes, and the rest of
// what the handler has to say. Each side sleeps until the other has news: the thread in AwaitAny, for a crossing is a
// loop.Source, the handler and whoever reads the body for it on cond.
//
// The handler knows nothing else of the connection. When the thread has gone on, all that it calls fails.
type crossing struct {
	thread *loop.Thread
	req    *http.Request

	mu   sync.Mutex
	cond sync.Cond // the thread has done something; for all on the handler's side

	// The handler's.
	news     bool // since the thread last looked
	watched  bool // by the thread, which is to be notified
	interim  []interim
	status   int
	header   http.Header
	out      []byte // of the body
	push     bool   // all of out is to be sent
	first    int    // bytes of out that are the beginning of the body, as the handler flushed it
	begun    bool
	trailer  []Field
	asked    bool // somebody waits for input
	closed   bool // nobody will
	returned bool
	panicked any
	limits   struct{ read, write time.Time }
	hijack   hijacking // both sides'

	// The thread's.
	in        []byte // of the body
	inErr     error  // behind it
	inTrailer http.Header
	outErr    error // what becomes of everything that is written
	left      bool  // it has gone on

	// Only the thread knows of these.
	inBuf, outBuf []byte
	reading       patience
	writing       patience
	sources       [3]loop.Source
	readable      *loop.Readiness
	writable      *loop.Readiness
}

type interim struct {
	status int
	header http.Header
}

func newCrossing(t *loop.Thread) *crossing {
	own := loop.Own(t)
	c := &crossing{thread: t, readable: own.Readable(), writable: own.Writable()}
	c.cond.L = &c.mu
	return c
}

// Watch implements loop.Source.
func (c *crossing) Watch(*loop.Thread) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = true
	return nil
}

// Ready implements loop.Source.
func (c *crossing) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

// Unwatch implements loop.Source.
func (c *crossing) Unwatch(*loop.Thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
}

// tell has the thread look. It is called under the lock, as cut is.
func (c *crossing) tell() {
	c.news = true
	if c.watched {
		c.watched = false
		loop.Notify(c.thread)
	}
}

// cut has everything fail that the handler still does.
func (c *crossing) cut(err error) {
	c.in = nil
	if c.inErr == nil {
		c.inErr = err
	}
	if c.outErr == nil {
		c.outErr = err
	}
	c.cond.Broadcast()
}

// The handler's side.

// run calls the handler, on its own goroutine.
func (c *crossing) run(h http.Handler, w *httpWriter) {
	returned := false
	defer func() {
		var panicked any
		if !returned {
			if p := recover(); p == nil { // runtime.Goexit
				panicked = http.ErrAbortHandler
			} else if panicked = p; p != http.ErrAbortHandler {
				panicked = &loop.PanicError{Value: p, Stack: debug.Stack()}
			}
		}
		w.over = true
		w.removeForm()
		c.mu.Lock()
		defer c.mu.Unlock()
		if e, ok := panicked.(*loop.PanicError); ok && c.left { // nobody else is there to log it
			w.log.Error("panic in a handler", "panic", e.Value, "target", w.req.RequestURI, "stack", string(e.Stack))
		}
		if c.hijack.cancel != nil {
			c.hijack.cancel(nil)
		}
		c.returned, c.closed, c.panicked = true, true, panicked
		c.cut(ErrComplete)
		c.tell()
	}()
	h.ServeHTTP(w, w.req)
	w.finish()
	returned = true
}

func (c *crossing) inform(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.interim) == maxInterim && c.outErr == nil {
		c.cond.Wait()
	}
	if c.outErr == nil {
		c.interim = append(c.interim, interim{status, h.Clone()})
		c.tell()
	}
}

func (c *crossing) open(status int, h http.Header) {
	h = h.Clone()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.header = status, h
}

// Write implements io.Writer.
func (c *crossing) Write(p []byte) (int, error) { return write(c, p) }

// WriteString implements io.StringWriter.
func (c *crossing) WriteString(s string) (int, error) { return write(c, s) }

func write[T []byte | string](c *crossing, p T) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		for len(c.out) == pipeSize && c.outErr == nil {
			c.tell()
			c.cond.Wait()
		}
		if c.outErr != nil {
			return n, c.outErr
		}
		k := min(len(p), pipeSize-len(c.out))
		c.out = append(c.out, p[:k]...)
		p = p[k:]
		n += k
	}
	return n, nil
}

// Flush does not wait: a client that is slow to take what was flushed holds up the next one who writes.
func (c *crossing) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outErr == nil {
		if !c.begun {
			c.begun, c.first = true, len(c.out)
		}
		c.push = true
		c.tell()
	}
	return c.outErr
}

func (c *crossing) end(trailer []Field) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = trailer
}

func (c *crossing) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.read = t
	if c.inErr == os.ErrDeadlineExceeded {
		c.inErr = nil
	}
	c.tell()
}

func (c *crossing) setWriteDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.write = t
	c.tell()
}

// crossingBody is the request's body as the handler has it. Any goroutine may use it.
type crossingBody crossing

// Read implements io.Reader.
func (b *crossingBody) Read(p []byte) (int, error) {
	c := (*crossing)(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, http.ErrBodyReadAfterClose
		case len(p) == 0:
			return 0, nil
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.inErr == io.EOF:
			addTrailer(c.req, c.inTrailer)
			return 0, io.EOF
		case c.inErr != nil:
			return 0, c.inErr
		}
		if !c.asked {
			c.asked = true
			c.tell()
		}
		c.cond.Wait()
	}
}

// Close implements io.Closer. Who waits in Read goes on.
func (b *crossingBody) Close() error {
	c := (*crossing)(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.cond.Broadcast()
	return nil
}

// The thread's side.

// serve carries body and answer until the handler has returned. It keeps waiting for that when the client has left: a
// handler that takes no notice counts as a connection.
func (c *crossing) serve(req *Request, resp *Response) int {
	x := req.x
	req.KeepWaiting(true)
	x.duplex, req.body.tryOnly = true, true
	defer func() { // also when the thread is killed
		x.duplex, x.until, req.body.tryOnly = false, zeroTime, false
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left = true
		c.cut(loop.ErrClientGone)
	}()
	for {
		x.sendHeld() // first: take leaves what there is no room for, and waits for no news of it
		returned, hijack := c.take(resp)
		if returned {
			break
		}
		if hijack && c.handOver(req, resp) {
			return resp.status
		}
		asked := c.give(&req.body)
		if asked {
			_ = x.flush() // there may be 100 (Continue) in it
		}
		if x.writeErr != nil { // what was held cannot be sent any more
			c.lost(req, x.writeErr)
		}
		c.wait(req, asked)
	}
	x.settle()
	if c.panicked != nil {
		panic(c.panicked)
	}
	return resp.early
}

// take takes what the handler has for the client, unless the client has not taken the last of it yet, and reports
// whether the handler has returned, or waits for the connection.
func (c *crossing) take(resp *Response) (returned, hijack bool) {
	x := resp.x
	c.mu.Lock()
	c.news = false
	x.until, x.writeUntil = c.limits.read, c.limits.write
	status, header := c.status, c.header
	var informs []interim
	var out []byte
	push := c.push
	returned, hijack = c.returned, c.hijack.wanted
	over := returned || hijack
	if over || len(x.held) == 0 {
		informs, c.interim = c.interim, nil
	}
	if over || len(x.held) == 0 && (push || len(c.out) == pipeSize) {
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
	if status != 0 && resp.early == 0 {
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
	if blocks(err) {
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
func (c *crossing) wait(req *Request, asked bool) {
	x := req.x
	held := len(x.held) > 0
	limit := time.Duration(-1)
	sources := append(c.sources[:0], c)
	if asked {
		d, err := c.reading.left(x, &x.reading, x.until, x.set.BodyTimeout)
		if err != nil {
			if x.until.IsZero() {
				err = ErrBodyTimeout
				req.body.err = err
			}
			c.got(nil, err, nil)
			return
		}
		limit, sources = d, append(sources, c.readable)
	} else {
		c.reading = patience{}
	}
	if held {
		d, err := c.writing.left(x, &x.writing, x.writeUntil, x.set.WriteTimeout)
		if err != nil {
			x.resetOnClose()
			c.lost(req, x.fail(err))
			return
		}
		if limit < 0 || d < limit {
			limit = d
		}
		sources = append(sources, c.writable)
	} else {
		c.writing = patience{}
	}
	before := x.c.Loop().Time()
	_, err := req.AwaitAny(limit, sources...)
	x.spent = 0
	waited := x.c.Loop().Time().Sub(before)
	if asked {
		x.reading.waited += waited
	}
	if held {
		x.writing.waited += waited
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		panic(http.ErrAbortHandler) // the thread is not to wait any more
	}
}

// patience is how long the peer may still have us wait in one direction.
type patience struct {
	until time.Time
	moved int64 // by then
}

// left returns what is left of it. It begins anew with every byte that moves; a deadline, if there is one, does not.
func (p *patience) left(x *exchange, pace *pace, deadline time.Time, limit time.Duration) (time.Duration, error) {
	now := x.c.Loop().Time()
	switch {
	case !deadline.IsZero():
		p.until = deadline
	case pace.tooSlow(x.set.MinRate):
		return 0, errTooSlow
	case p.until.IsZero() || p.moved != pace.bytes:
		p.until, p.moved = now.Add(limit), pace.bytes
	}
	if d := p.until.Sub(now); d > 0 {
		return d, nil
	}
	return 0, os.ErrDeadlineExceeded
}
