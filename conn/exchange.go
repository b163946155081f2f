package conn

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"runtime/trace"
	"time"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

const (
	firstInput = 2 << 10  // the first input buffer; most heads fit, and a sleeping handler holds it
	keptBuffer = 64 << 10 // larger buffers are not kept for the next request
	turnBudget = stream.TurnBudget
)

// exchange is all that a connection needs while it is being served. It belongs to a coroutine and
// not to a connection, so that the few exchanges in use stay in the cache.
type exchange struct {
	c   *connection
	set *settings // of the present request

	// The connection's bytes; with TLS, the encrypted ones. A handler's deadlines are the stream's.
	stream stream.Stream

	// The pace that the client must keep during this request, and what it has moved so far.
	reading, writing stream.Pace

	// Input. in[r:w] was read and is not used yet. in[:base] belongs to the present request's head
	// and must stay where it is.
	in   []byte
	base int
	r, w int

	// Output.
	out      []byte // not written yet
	writeErr error  // sticky
	severed  bool   // writeErr is that of cut, and the client may still take what came before
	unsent   int    // bytes that the kernel had not sent when writeErr was set
	duplex   *Duplex

	began   time.Time
	unheard bool         // the client left before the head went out, which ended a wait of the handler
	entry   *AccessEntry // that of logAccess, used again; nil before the first
	crowds  AccessLog    // has too many lines of this connection; nil: none has

	task context.Context // of the runtime's trace; nil: there was none when the request began

	counting bool          // the request has begun and is not counted yet
	took     time.Duration // by its handler, or untimed

	req  Request
	resp Response
}

func newExchange() *exchange {
	return &exchange{in: make([]byte, firstInput)}
}

func (x *exchange) attach(c *connection) {
	x.c, c.x = c, x
	if len(c.port.untaken) > 0 {
		delete(c.port.untaken, c)
	}
	x.set = c.port.server.settings.Load()
	x.crowds = nil
	x.stream.Own(&c.Thread, c.remote.addrPort())
	x.pace(&x.writing, x.set.WriteTimeout)
	x.stream.SetPace(&x.reading, &x.writing)
	if c.tls != nil {
		c.transport().attach(x)
	}
}

// pace sets the pace that the client must keep: a byte within each time idle, and min_rate.
func (x *exchange) pace(p *stream.Pace, idle time.Duration) {
	*p = stream.Pace{} // a literal with the fields below would be copied
	p.Idle, p.MinRate, p.Grace, p.Window = idle, x.set.MinRate, graceOfRate, rateWindow
}

// They are variables only for the tests.
var (
	graceOfRate = 10 * time.Second // the time waited for a client before its rate counts
	rateWindow  = 30 * time.Second // the waited time over which the rate is measured
)

// leave ends the connection's turn and sends its answers. There is something left to send only if
// the turn has ended with a panic or runtime.Goexit.
func (x *exchange) leave() {
	defer x.detach()
	defer x.c.RunDeferred(0) // before detach: the functions may use request and response
	_ = x.flush()
}

// strand abandons the exchange to a function that still runs off the loop and may hold it. The
// function may read what has come of the request. It must not reach the connection, which goes on
// with another exchange or ends; then its descriptor's number may soon be that of another client.
func (x *exchange) strand() {
	x.count(0)
	if x.req.cancel != nil {
		x.req.cancel(loop.ErrClientGone)
	}
	loop.SetLocal(&x.c.Thread, nil)
	x.c.x, x.out = nil, nil
	x.resp.discard()
	x.resp.phase, x.req.body.err, x.writeErr = complete, ErrComplete, ErrComplete
	x.stream = stream.Stream{}
}

// detach makes the exchange ready for another connection.
func (x *exchange) detach() {
	if loop.Stranded(&x.c.Thread) {
		x.strand()
		return
	}
	x.end()
	x.req.head.Reset()
	x.req.raw = nil
	// Functions of handlers may hold all of a configuration that is in force no more.
	clear(x.resp.hooks[:cap(x.resp.hooks)])
	clear(x.resp.pages[:cap(x.resp.pages)])
	x.crowds = nil
	if x.c.tls != nil {
		x.c.transport().detach()
	}
	t := &x.c.Thread
	x.c.x = nil
	x.c, x.set, x.writeErr = nil, nil, nil
	x.r, x.w, x.base = 0, 0, 0
	x.req.body.err = ErrComplete // the next client must not read this body
	if x.entry != nil {
		*x.entry = AccessEntry{}
	}
	x.stream = stream.Stream{}
	x.reading, x.writing, x.unsent, x.severed = stream.Pace{}, stream.Pace{}, 0, false
	x.duplex, x.req.body.tryOnly = nil, false
	if len(x.in) > keptBuffer {
		x.in = make([]byte, firstInput)
	}
	if cap(x.out) > keptBuffer {
		x.out = nil
	}
	x.out = x.out[:0]
	invariants.Mangle(x.in)
	invariants.Mangle(x.out[:cap(x.out)])
	if invariants.Enabled && loop.Local(t) == any(x) { // else a hijack has left it to the handler
		loop.SetLocal(t, restLong(x))
	}
}

// end drops what the present request and its answer hold, if there is a request.
func (x *exchange) end() {
	if x.req.Thread == nil {
		return
	}
	x.task = nil
	x.count(0) // the handler has ended its goroutine, or was killed
	if x.req.cancel != nil {
		x.req.cancel(loop.ErrClientGone)
	}
	x.req.release()
	x.resp.reset()
}

// exchange serves the request whose head was read, and reports whether the connection goes on. If
// so, c.x is its exchange, which may be another one. If not, all that comes before the close has
// been done.
func (x *exchange) exchange() bool {
	c := x.c
	c.state |= served
	x.stream.Spend()
	x.begin()
	if p := c.port.proxies(x.set); p != nil {
		x.req.believe(p)
	}
	status := x.precheck()
	if status == 0 {
		mark := c.Mark()
		if trace.IsEnabled() {
			x.traced()
		}
		var began time.Duration
		count := x.set.Count
		if count {
			began = clock()
		}
		status = x.call(x.set.Handler)
		if count && c.x != nil {
			c.x.took = clock() - began
		}
		if x = c.x; x != nil && !x.unheard {
			status = x.errorPage(status)
			x = c.x
		}
		if x == nil { // the handler has taken the connection over
			c.RunDeferred(mark)
			return false
		}
		x.settle()
		x.resp.finish(status)
		loop.Hold(&c.Thread, true)
		c.RunDeferred(mark)
		if loop.Stranded(&c.Thread) {
			return x.abandon()
		}
	} else {
		x.resp.finish(status)
	}
	x.completed()
	last := x.writeErr != nil || x.resp.close
	x.end()
	full := len(x.out) >= gather // many answers without a body fill it, too
	if last || full && x.flush() != nil || !x.req.body.drain() || x.crowds != nil && x.awaitLog() != nil {
		x.closeAfter()
		return false
	}
	return true
}

// completed is called when the answer has been given.
func (x *exchange) completed() {
	if x.req.cancel != nil {
		x.req.cancel(nil)
		x.req.cancel = nil
	}
	if x.resp.phase != hijacked {
		x.countAnswer()
		x.logAccess(nil)
	}
}

// abandon leaves the exchange to a function that still runs off the loop and may hold the request.
// It gives the connection a new exchange, and reports whether the connection goes on.
func (x *exchange) abandon() bool {
	c := x.c
	x.completed()
	last := x.resp.close
	y := newExchange()
	y.out, y.writeErr, y.severed = x.out, x.writeErr, x.severed
	body := x.req.body
	x.strand()
	y.attach(c)
	loop.SetLocal(&c.Thread, y)
	if n := x.w - x.r; n > len(y.in) {
		y.in = make([]byte, n)
	}
	y.w = copy(y.in, x.in[x.r:x.w])
	y.req.body, y.req.body.x = body, y
	y.reading = x.reading // the client's pace is that of the same body
	if last || y.writeErr != nil || !y.req.body.drain() {
		y.lingeringClose()
		return false
	}
	return true
}

// begin makes everything ready for one answer.
func (x *exchange) begin() {
	x.c.port.tally.Requests++
	x.counting, x.took = true, untimed
	x.began = x.c.Loop().Time()
	x.pace(&x.reading, x.set.BodyTimeout)
	x.pace(&x.writing, x.set.WriteTimeout)
	_ = x.stream.SetWriteDeadline(time.Time{})
	x.unheard = false
	x.req.begin(x)
	x.resp.begin(x)
	loop.Hold(&x.c.Thread, len(x.out) > 0)
	x.c.KeepWaiting(false) // the last handler's choice is not this one's
}

// precheck returns the status of a request that no handler needs to see; 0: the handler runs.
func (x *exchange) precheck() int {
	h := &x.req.head
	switch {
	case x.c.outdated(): // it may ask again, by a connection that meets the terms
		x.resp.close = true
		return http.StatusMisdirectedRequest
	case h.Secure && !x.req.Secure():
		// An https resource must not be served over a connection that is not secured (RFC 9110
		// section 7.4). A gateway that ends TLS in front sends the origin-form, or is a trusted
		// proxy and says so. An http target on a secured connection does no harm: it asks for less
		// than the connection gives.
		return http.StatusMisdirectedRequest
	case h.Method == http1.CONNECT: // this server is no proxy (RFC 9110 section 9.3.6)
		x.resp.header.Set("Allow", Methods)
		x.resp.close = true
		return http.StatusMethodNotAllowed
	case h.Asterisk: // the server as a whole (RFC 9110 section 9.3.7)
		x.resp.header.Set("Allow", Methods)
		return http.StatusOK // and Content-Length: 0, as in net/http
	case x.set.LargestBodySize >= 0 && h.ContentLength > x.set.LargestBodySize:
		x.resp.close = true
		return http.StatusRequestEntityTooLarge
	}
	if !x.req.cleanPath() {
		x.resp.close = true
		return http.StatusBadRequest
	}
	return 0
}

// Methods are those that a handler may see.
const Methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// call runs a handler, and waits for the threads that the handler has started. A panic ends this
// connection and nothing else. A panic with http.ErrAbortHandler is not logged and gets no answer.
//
// Once the handler runs, call and its callers do not use x any more; they look c.x up anew. A
// handler that has hijacked the connection may go on for hours, and nothing but the handler may
// hold what is left of its request.
func (x *exchange) call(h Handler) (status int) {
	c, returned := x.c, false
	defer func() {
		if returned {
			return
		}
		p := recover()
		c.Cancel()
		_ = c.Join()
		if p == nil { // runtime.Goexit
			return
		}
		stack := debug.Stack()
		if e, ok := p.(*loop.PanicError); ok { // a panic of another thread or goroutine
			p, stack = e.Value, e.Stack
		}
		if p != http.ErrAbortHandler {
			c.port.server.panics.Add(1)
			c.failed("conn: panic in a handler", "panic", p, "stack", string(stack))
		}
		if h := c.takeover(); h != nil {
			h.panicked = true
		}
		if x := c.x; x != nil {
			x.resp.close = true
			x.resp.fail(p == http.ErrAbortHandler)
		}
		status = http.StatusInternalServerError
	}()
	status = h(&x.req, &x.resp)
	if x := c.x; x != nil {
		x.unheard = !x.resp.HeadSent() && loop.Forsaken(&c.Thread)
	}
	err := c.Join()
	returned = true
	if err != nil {
		left := errors.Is(err, loop.ErrClientGone)
		if !left {
			c.failed("conn: thread of a handler failed", withStack(err)...)
		}
		if x := c.x; x != nil {
			x.unheard = x.unheard || left && !x.resp.HeadSent()
			x.resp.fail(false)
		}
		status = http.StatusInternalServerError
	}
	return status
}
