package conn

import (
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

const (
	// pipeSize limits, in each direction, what one side has given and the other has not yet taken,
	// until one has filled it. Then there is more to come, and widePipe is the limit: each exchange
	// between the two sides costs two changes of goroutines, and a wake-up of the loop.
	pipeSize = 32 << 10
	widePipe = 64 << 10

	// narrowPipe is the limit for an answer whose client, by its windows, takes little more than what
	// is sent already: that may be so for long.
	narrowPipe = 8 << 10

	maxInterim = 16 // interim responses, likewise
)

// bridge is what a handler off the loop and its request's thread share: two bounded pipes, and
// the status, header and so on of the answer. Each side sleeps until the other has changed
// something: the thread in AwaitAny, since a bridge is a loop.Source; the handler, and any
// goroutine that reads the body for it, on cond.
//
// The handler has no other access to the connection, except in bulk: see sendDirect. When the
// thread has gone on, all its calls fail.
type bridge struct {
	thread  *loop.Thread
	handler http.Handler
	writer  httpWriter
	ended   func() // called when the handler has returned; nil: nothing is

	mu   sync.Mutex
	cond sync.Cond // the thread has changed something; for all goroutines on the handler's side

	// The handler's.
	changed    bool // since the thread last read it
	watched    bool // the thread waits, and is to be notified
	parked     bool // the thread waits, and cannot go on while another goroutine holds the lock
	interim    []interim
	status     int
	header     http.Header
	out        []byte // of the body
	room       int    // the limit of out: narrowPipe, pipeSize or widePipe
	push       bool   // all of out is to be sent
	first      int    // bytes that the handler had written when it flushed for the first time
	begun      bool
	trailer    []Field
	wantsInput bool // a goroutine waits for input
	closed     bool // the handler reads no more
	returned   bool
	panicked   any
	limits     struct{ read, write time.Time }
	hijack     hijacking // both sides'
	hijacks    bool      // it can be done
	habit      *habit
	place      loop.InPlace // where it runs
	waited     bool         // for the thread

	// The thread's.
	in        []byte // of the body
	inErr     error  // behind it
	inTrailer http.Header
	outErr    error // the error of every write from now on
	left      bool  // the thread has gone on

	// The thread's alone, not under the lock; while it is parked, everyone's who holds the lock.
	resp          *Response
	inBuf, outBuf []byte
	filled        bool // most of inBuf, by the last read
	more          bool // there was probably more to read then
	failed        bool // a thread that the request has started has
	duplex        Duplex
	self          [1]loop.Source
}

type interim struct {
	status int
	header http.Header
}

func newBridge(x *exchange, h http.Handler) *bridge {
	c := &bridge{thread: x.req.Thread, handler: h, hijacks: x.req.hijacks(), room: pipeSize}
	if x.via.room() < pipeSize/2 {
		c.room = narrowPipe
	}
	c.self[0] = c
	c.cond.L = &c.mu
	return c
}

// wideBuffers are for pipes that were filled.
var wideBuffers = sync.Pool{New: func() any { return new([widePipe]byte) }}

// release gives up a buffer of a pipe, if it is a wide one.
func release(buf *[]byte) {
	if b := *buf; cap(b) == widePipe {
		*buf = nil
		wideBuffers.Put((*[widePipe]byte)(b[:widePipe]))
	}
}

// slim gives up a buffer that is larger than a narrow pipe's, and returns what is left of it.
func slim(buf []byte) []byte {
	if release(&buf); cap(buf) > narrowPipe {
		return nil
	}
	return buf[:0]
}

// Watch implements loop.Source.
func (c *bridge) Watch(*loop.Thread) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.parked = true, true
	return nil
}

// Ready implements loop.Source.
func (c *bridge) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Unwatch implements loop.Source.
func (c *bridge) Unwatch(*loop.Thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.parked = false, false
}

// notify wakes the thread, if it waits. It is called under the lock, as cut is.
func (c *bridge) notify() {
	c.changed = true
	if c.watched {
		c.watched = false
		loop.Notify(c.thread)
	}
}

// await waits for the thread, under the lock.
func (c *bridge) await() {
	c.leave()
	c.cond.Wait()
}

// leave makes the thread act while the handler runs.
func (c *bridge) leave() {
	if !c.waited {
		c.waited = true
		c.place.Leave()
	}
}

// cut makes all further reads and writes of the handler fail.
func (c *bridge) cut(err error) {
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

// run calls the handler, at a place, or on its own goroutine.
func (c *bridge) run(at loop.InPlace) {
	c.place = at
	begin := loop.Now()
	w := &c.writer
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
		if c.ended != nil { // before the client can see it, and ask for more
			c.ended()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		e, ok := panicked.(*loop.PanicError)
		if ok && (c.left || w.hijacked) { // no thread is left to log it
			w.server.panics.Add(1)
			w.log.Error("conn: panic in a handler",
				append(w.about("panic", e.Value), "stack", string(e.Stack))...)
		}
		if c.hijack.cancel != nil {
			c.hijack.cancel(nil)
		}
		c.hijack.end()
		if at == (loop.InPlace{}) {
			c.habit.note(loop.Now()-begin, c.waited)
		}
		c.returned, c.closed, c.panicked = true, true, panicked
		c.cut(ErrComplete)
		c.notify()
	}()
	c.handler.ServeHTTP(w.seen(c.hijacks), w.req)
	w.finish()
	returned = true
}

// growStack makes the stack of a new goroutine as large as most handlers need, 8 KiB. The runtime
// begins with 2 KiB and doubles them whenever they do not suffice; each time it adjusts all frames
// that are there, and that took a third of the instructions of a short request. Here there is one.
//
//go:noinline
func growStack() byte {
	var frame [3 << 10]byte
	return frame[anyByte]
}

var anyByte int // not known when the program is built, so that there is a frame

func (c *bridge) inform(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.interim) == maxInterim && c.outErr == nil {
		c.await()
	}
	if c.outErr == nil {
		c.interim = append(c.interim, interim{status, h.Clone()})
		c.notify()
		c.leave()
	}
}

func (c *bridge) open(status int, h http.Header) {
	h = h.Clone()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.header = status, h
}

// Write implements io.Writer.
func (c *bridge) Write(p []byte) (int, error) { return write(c, p) }

// WriteString implements io.StringWriter.
func (c *bridge) WriteString(s string) (int, error) { return write(c, s) }

func write[T []byte | string](c *bridge, p T) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		for len(c.out) == c.room && c.outErr == nil {
			if c.sendDirect(c.out) {
				c.out = c.out[:0]
				break
			}
			c.notify()
			c.await()
		}
		if c.outErr != nil {
			return n, c.outErr
		}
		if k := min(len(p), c.room); len(c.out) == 0 && k >= leastDirect {
			if b, ok := any(p).([]byte); ok && c.sendDirect(b[:k]) {
				p = p[k:]
				n += k
				// A mutex goes over to a goroutine that has waited for a millisecond. So however
				// long p is, it does not keep the thread from what has woken it.
				c.mu.Unlock()
				c.mu.Lock()
				continue
			}
		}
		if len(c.out) == 0 && c.room == widePipe && cap(c.out) < widePipe {
			c.out = wideBuffers.Get().(*[widePipe]byte)[:0]
		}
		k := min(len(p), c.room-len(c.out))
		c.out = append(c.out, p[:k]...)
		p = p[k:]
		n += k
	}
	return n, nil
}

// Flush does not wait: if the client is slow to take what was flushed, the next write waits. Behind
// the deadline nothing goes out any more, so Flush has its error, as with net/http.
func (c *bridge) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outErr == nil {
		if !c.begun {
			c.begun, c.first = true, len(c.out)
		}
		c.push = true
		c.notify()
		c.leave()
		if by := c.limits.write; !by.IsZero() && !time.Now().Before(by) {
			return loop.ErrDeadlineExceeded
		}
	}
	return c.outErr
}

func (c *bridge) end(trailer []Field) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = trailer
}

func (c *bridge) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.read = t
	if c.inErr == loop.ErrDeadlineExceeded {
		c.inErr = nil
	}
	c.notify()
}

func (c *bridge) setWriteDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.write = t
	c.notify()
}

// bridgeBody is the request's body for the handler. Any goroutine may use it.
type bridgeBody bridge

// Read implements io.Reader.
func (b *bridgeBody) Read(p []byte) (int, error) {
	c := (*bridge)(b)
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
			addTrailer(c.writer.req, c.inTrailer)
			return 0, io.EOF
		case c.inErr != nil:
			return 0, c.inErr
		}
		if n := c.readDirect(p); n > 0 {
			return n, nil
		}
		if !c.wantsInput {
			c.wantsInput = true
			c.notify()
		}
		c.await()
	}
}

// Close implements io.Closer. It ends the waits of goroutines in Read.
func (b *bridgeBody) Close() error {
	c := (*bridge)(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.cond.Broadcast()
	return nil
}

// In bulk, the handler's goroutine moves the bytes itself: a change to the thread and back costs
// more than sending or receiving 32 KiB. It may do so while the thread is parked, that is, between
// Watch and Unwatch. Both take the bridge's lock. So whatever wakes the thread, a kill included,
// it cannot go on, touch the turn or let its descriptor be closed while the handler's goroutine
// holds the lock. That goroutine never waits in a system call. It leaves everything else to the
// thread: the head, a full socket, an error, the end, a deadline that has passed, TLS, an encoder.

// past reports whether a deadline that the handler has set has passed.
func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// leastDirect is how many bytes are worth a system call. Fewer are gathered.
const leastDirect = 16 << 10

// sendDirect sends p to the client, under the lock. It reports false if the thread has to do that.
// What the client has no room for is held, and the thread is notified. Unless something has
// changed, the thread has seen all that the handler wants, and the stream has the handler's
// deadline.
func (c *bridge) sendDirect(p []byte) bool {
	if !c.parked || c.room != widePipe || c.changed || past(c.limits.write) {
		return false
	}
	w := c.resp
	d := w.via.direct()
	switch {
	case d == nil, !d.mayWrite(), c.duplex.Held() > 0:
		return false
	case !w.HeadSent(), w.enc != nil, w.tap != nil, w.plan.bare:
		return false
	case w.size >= 0 && int64(len(p)) > w.left:
		return false
	}
	d.setOffLoop(true)
	_ = w.stream(p) // the conditions above leave no error: what cannot be sent is held
	d.setOffLoop(false)
	if c.duplex.Held() > 0 {
		c.notify()
	}
	return true
}

// readDirect reads some of the body into p, under the lock. It returns 0 if the thread has to do
// that, as always when the thread's last read has emptied the socket: the next one probably waits.
func (c *bridge) readDirect(p []byte) int {
	if !c.parked || !c.more || c.wantsInput || past(c.limits.read) {
		return 0
	}
	b := &c.resp.x.req.body
	d := b.x.via.direct()
	if d == nil || b.state != bodyOpen || b.ask || b.replacement != nil {
		return 0
	}
	to := p
	if len(p) < leastDirect {
		to = c.inBuf
	}
	d.setOffLoop(true)
	n, _ := b.take(to, false) // the thread's next read returns an error that is no wait
	d.setOffLoop(false)
	if len(p) < leastDirect {
		c.in = to[:n]
		n = copy(p, c.in)
		c.in = c.in[n:]
	}
	return n
}
