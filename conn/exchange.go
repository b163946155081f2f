package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// exchange is a request and its answer, between a handler and whatever carries them. Exchanges are
// used again, for any client.
type exchange struct {
	c          *connection // that the request has come by
	via        carrier
	set        *settings
	protocol   string      // "HTTP/2.0"; "": as the head says
	subrequest *subrequest // that it is a part of; nil: the request is the client's
	background *background // that it is a part of; nil: it is none's

	entry   *AccessEntry // for logAccess, used again; nil before the first
	fullLog AccessLog    // has too many lines of this connection; nil: none has

	req  Request
	resp Response

	ofRequest
}

// ofRequest is what else an exchange has of its request. Nothing of it is left for the next one.
type ofRequest struct {
	began      time.Time
	clientLeft bool // the client left before the head went out, which ended a wait of the handler
	upstream   upstream
	cache      CacheUse
	duplex     *Duplex

	task    context.Context // of the runtime's trace; nil: there was none when the request began
	ctx     context.Context // of the request; nil: none was needed
	cancel  context.CancelCauseFunc
	bound   *loop.Binding   // of the context to the thread; nil: SetContext was not called
	lasting context.Context // see lastingContext

	counting bool          // the request has begun and is not counted yet
	called   time.Duration // when its handler was
	took     time.Duration // by its handler, or untimed
}

func newExchange() *exchange {
	x := new(exchange)
	x.clear()
	return x
}

// record is the body of a request's thread, which lasts while handlers come and go: a connection of
// HTTP/1.1, or a stream of HTTP/2.
type record interface {
	// the present one; nil: a handler has taken over what it was served on
	exchange() *exchange
	failed(what string, args ...any) // logs
	server() *Server
}

func recordOf(t *loop.Thread) record { return t.Layer().Task().(record) }

// exchangeOf is recordOf(t).exchange(), which is asked for a few times for each request.
func exchangeOf(t *loop.Thread) *exchange {
	if c, ok := t.Layer().Task().(*connection); ok {
		return c.exchange()
	}
	return recordOf(t).exchange()
}

// hasTakenOver reports whether a handler has taken over what the thread's request was served on. To
// compare exchanges does not tell: that of a Subrequest is never the thread's.
func hasTakenOver(t *loop.Thread) bool { return exchangeOf(t) == nil }

// summary names the request, for a dump of threads. It is called on the loop, while the thread does
// not run.
func (x *exchange) summary() string {
	if x.req.Thread == nil || x.req.raw == nil {
		return "between requests"
	}
	head := &x.req.head
	return fmt.Sprintf("request %s, %s %.200q, route %q", x.req.ID(),
		head.Name.Of(x.req.raw), head.Target.Of(x.req.raw), x.req.prefix)
}

// begin makes everything ready for the request whose head was read, on the thread t.
func (x *exchange) begin(t *loop.Thread) {
	x.c.port.stats.Requests++
	x.counting, x.took = true, untimed
	x.began = t.Loop().Time()
	x.req.begin(x, t)
	x.resp.begin(x)
}

// end drops what the present request and its answer hold, if there is a request.
func (x *exchange) end() {
	if x.req.Thread == nil {
		return
	}
	if x.counting { // the handler has ended its goroutine, or was killed
		x.count(0)
	}
	x.canceled(loop.ErrClientGone)
	x.req.release()
	x.resp.reset() // which may end what still tells x of its upstream
	x.ofRequest = ofRequest{}
}

// clear makes an exchange, which has ended, hold nothing of its last client.
func (x *exchange) clear() {
	x.req.head.Reset()
	x.req.raw = nil
	x.req.body.over(ErrComplete) // the next client must not read this body
	x.c, x.set, x.fullLog = nil, nil, nil
	x.carry(noRequest)
	if x.entry != nil {
		*x.entry = AccessEntry{}
	}
}

// abandon leaves the exchange to a function that still runs off the loop and may hold it. The
// function may read what has come of the request. It must not reach the connection, which goes on
// with another exchange or ends; then its descriptor's number may soon be another client's.
func (x *exchange) abandon() {
	x.count(0)
	x.canceled(loop.ErrClientGone)
	x.resp.discard()
	x.resp.endTap(errAborted)
	x.resp.phase = complete
	x.req.body.over(ErrComplete)
	x.carry(noRequest)
}

// carry makes v the carrier of the exchange that there is.
func (x *exchange) carry(v carrier) { x.via, x.resp.via = v, v }

// canceled ends the request's context, if it has one.
func (x *exchange) canceled(cause error) {
	if x.cancel != nil {
		x.cancel(cause)
	}
}

// answer lets the handler answer the request, and sends the answer. If the handler has taken the
// connection over, the connection has no exchange afterwards.
func (x *exchange) answer() {
	status := x.precheck()
	if status != 0 {
		x.resp.finish(status)
		return
	}
	t := x.req.Thread
	mark := t.Mark()
	if trace.IsEnabled() {
		x.traced()
	}
	if x.set.Count {
		x.called = clock()
	}
	called(t, mark, x.call(x.set.Handler))
}

// called goes on when the handler has returned. It stands apart from answer because stacks are
// small, and handlers run on top of answer.
//
//go:noinline
func called(t *loop.Thread, mark, status int) {
	x := exchangeOf(t)
	if x != nil && x.set.Count {
		x.took = clock() - x.called
	}
	if x != nil && !x.clientLeft && len(x.resp.pages) > 0 {
		x.finishDuplex() // what is read and made from here on is so in the usual way
		status = x.errorPage(&x.resp, status)
		x = exchangeOf(t)
	}
	if x != nil {
		x.finishDuplex()
		if x.clientLeft && x.resp.noAnswer(status) {
			x.resp.fail(true)
		}
		x.resp.finish(status)
		t.Layer().FlushBeforeWait(true)
	}
	if (x == nil || x.resp.phase == hijacked) && takeoverOf(t).takeDeferred(t) {
		return
	}
	t.RunDeferred(mark)
}

// noAnswer reports that a handler which has returned that status has not made an answer: it has
// given up when its wait has ended because the client had left. 200 would be a lie then. A client
// that has closed its sending half alone gets what the handler has made all the same.
func (w *Response) noAnswer(status int) bool {
	return status == 0 && w.phase == open && w.early == 0 && w.kind == gathered && len(w.buf) == 0
}

// completed is called when the answer has been given.
func (x *exchange) completed() {
	if x.cancel != nil {
		x.cancel(nil)
		x.cancel = nil
	}
	if x.resp.phase != hijacked {
		x.countAnswer()
		x.logAccess()
	}
}

// precheck returns the status of a request that no handler needs to see; 0: the handler runs.
func (x *exchange) precheck() int {
	h := &x.req.head
	switch {
	case x.c.outdated(): // it may ask again, by a connection that meets the terms
		x.resp.close = true
		return http.StatusMisdirectedRequest
	case h.Secure && !x.req.Secure() && !x.ofProxy():
		// An https resource must not be served over a connection that is not secured (RFC 9110
		// section 7.4). A gateway that ends TLS in front sends the origin-form, or is a trusted
		// proxy and says so; over HTTP/2 each request has a scheme. An http target on a secured
		// connection does no harm: it asks for less than the connection gives.
		if s := x.c.port.server; x.protocol != "" && s.schemeNote.now(x.c.Loop()) {
			x.set.Logger.Warn(
				"conn: a request for https has come by HTTP/2 in clear text, and was refused: "+
					"if this is a proxy, trust it", "listener", x.c.port.Name, "remote", x.c.remote.addrPort())
		}
		return http.StatusMisdirectedRequest
	case x.protocol != "" && x.elsewhere():
		return http.StatusMisdirectedRequest
	case h.Method == http1.CONNECT: // this server is no proxy (RFC 9110 section 9.3.6)
		x.resp.header.Set("Allow", ownMethods)
		x.resp.close = true
		return http.StatusMethodNotAllowed
	case h.Asterisk: // the server as a whole (RFC 9110 section 9.3.7)
		x.resp.header.Set("Allow", ownMethods)
		return http.StatusOK // and Content-Length: 0, as in net/http
	case !x.set.Refuses && x.req.Layer().TooLarge():
		x.resp.close = true
		return http.StatusRequestEntityTooLarge
	}
	if !x.req.cleanPath() {
		x.resp.close = true
		return http.StatusBadRequest
	}
	return 0
}

// TooLarge reports whether the length of the body is more than Config.LargestBodySize. No handler
// may be asked then but for what refuses the request, see Config.Refuses.
func (r RequestLayer) TooLarge() bool {
	most := r.x.set.LargestBodySize
	return most >= 0 && r.head.ContentLength > most
}

// ofProxy reports whether the request has come by HTTP/2 from a trusted proxy: then its scheme is
// the client's, and what the proxy says in fields may be less.
func (x *exchange) ofProxy() bool {
	const fromProxyHeader = headed | named // by the PROXY protocol
	return x.protocol != "" && (x.req.proxied || x.c.state&fromProxyHeader == fromProxyHeader)
}

// elsewhere reports whether the request must come by another connection, because of its host.
func (x *exchange) elsewhere() bool {
	c := x.c
	if c.tls == nil || c.port.Misdirected == nil {
		return false
	}
	host := x.req.Layer().HostView()
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	t := c.transport()
	if string(host) == t.sni || string(host) == t.host && t.hostFor == x.set {
		return false
	}
	name := string(host)
	if c.port.Misdirected(t.sni, name) {
		return true
	}
	t.host, t.hostFor = name, x.set
	return false
}

// ownMethods are those that the server names in Allow where it answers itself: to CONNECT and to
// "OPTIONS *". A handler may see any other token, but CONNECT.
const ownMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// call runs a handler, and waits for the threads that the handler has started. A panic ends this
// connection and nothing else. A panic with http.ErrAbortHandler is not logged and gets no answer.
//
// Once the handler runs, call and its callers do not use x any more; they look the record's
// exchange up anew. A handler that has hijacked the connection may go on for hours, and nothing but
// the handler may hold what is left of its request.
func (x *exchange) call(h Handler) (status int) {
	t, returned := x.req.Thread, false
	defer func() {
		if returned {
			return
		}
		p := recover()
		t.Cancel()
		_ = t.Join()
		if p == nil { // runtime.Goexit
			return
		}
		panicked(t, p)
		status = http.StatusInternalServerError
	}()
	status = h(&x.req, &x.resp)
	if x := exchangeOf(t); x != nil {
		x.clientLeft = !x.resp.HeadSent() && t.Layer().SawClientGone()
	}
	err := t.Join()
	returned = true
	if err != nil {
		threadFailed(t, err)
		status = http.StatusInternalServerError
	}
	return status
}

// panicked makes a 500 of a panic of the handler on t.
func panicked(t *loop.Thread, p any) {
	rec, stack := recordOf(t), debug.Stack()
	if e, ok := p.(*loop.PanicError); ok { // a panic of another thread or goroutine
		p, stack = e.Value, e.Stack
	}
	if p != http.ErrAbortHandler {
		rec.server().panics.Add(1)
		rec.failed("conn: panic in a handler", "panic", p, "stack", string(stack))
	}
	if h := takeoverOf(t); h != nil {
		h.panicked = true
	}
	if x := rec.exchange(); x != nil {
		x.resp.close = true
		x.resp.fail(p == http.ErrAbortHandler)
	}
}

// threadFailed makes a 500 of the error of a thread that the handler on t has started.
func threadFailed(t *loop.Thread, err error) {
	rec, left := recordOf(t), errors.Is(err, loop.ErrClientGone)
	if !left {
		rec.failed("conn: thread of a handler failed", withStack(err)...)
	}
	if x := rec.exchange(); x != nil {
		x.clientLeft = x.clientLeft || left && !x.resp.HeadSent()
		x.resp.fail(false)
	}
}

// finishDuplex ends the request's Duplex, if there is one, and writes what it holds.
func (x *exchange) finishDuplex() {
	d := x.duplex
	if d == nil {
		return
	}
	x.via.setMinRate(0)
	if x.via.writeError() != nil {
		d.drop()
		return
	}
	x.duplex, x.req.body.tryOnly = nil, false
	x.via.endDuplex()
}

// A Request and its Response belong to an exchange, which serves one request after another, of any
// client. A handler, or a goroutine, that keeps one of them and uses it later finds the exchange in
// one of two states.
//
// It has ended. Then the Request is empty, what waits, reads or writes returns ErrComplete, and
// nothing that is set reaches the next request.
//
// It serves another request. That cannot be told without a cost for every request: a generation
// would have to be passed with each call. So under the invariants tag exchanges are kept in
// quarantine, and every use of one there panics, which names the fault. The race detector finds the
// same fault if it is a goroutine's. Under the tag a goroutine that uses the Response while its
// handler still runs, or waits, panics as well.

// quarantined are the exchanges that ended longest ago, under the invariants tag. They are made in
// advance, so that no request allocates one.
var quarantined struct {
	sync.Mutex
	ring []*exchange
	next int
}

const maxQuarantined = 64

// quarantine exchanges x, which has ended, for another one that ended long ago.
func quarantine(x *exchange) *exchange {
	quarantined.Lock()
	defer quarantined.Unlock()
	if quarantined.ring == nil {
		quarantined.ring = make([]*exchange, maxQuarantined)
		for i := range quarantined.ring {
			quarantined.ring[i] = newExchange()
		}
	}
	slot := &quarantined.ring[quarantined.next]
	quarantined.next = (quarantined.next + 1) % len(quarantined.ring)
	x, *slot = *slot, x
	return x
}

// live panics, under the invariants tag, if r is over.
func (r *Request) live() {
	if invariants.Enabled && r.Thread == nil {
		panic("conn: use of a Request or a Response after its handler has returned")
	}
}

// live panics, under the invariants tag, if the request is over, and as well if the caller is a
// goroutine that is none of the loop's threads: then the handler uses w at the same time, or the
// loop does. An exchange that was abandoned is not the connection's any more; it is left to the
// function that has abandoned it.
func (w *Response) live() {
	if invariants.Enabled && w.x != nil {
		w.x.req.live()
		if t := w.x.req.Thread; t != nil && w.x.subrequest == nil && recordOf(t).exchange() == w.x {
			t.Loop().Layer().Check()
		}
	}
}

// over reports whether r is over, and its exchange cleared.
func (r *Request) over() bool {
	r.live()
	return r.Thread == nil
}

func (w *Response) over() bool {
	w.live()
	return w.x != nil && w.x.req.Thread == nil
}

// traced makes the request a task of the runtime's trace, which is on, with its ID and its route.
// The context of the request is the task's, so that a handler's own regions and logs belong to it.
// The task ends behind the deferred calls of the handler, which are called even if it is killed.
func (x *exchange) traced() {
	t := x.req.Thread // not the connection's: that of HTTP/2 serves no request
	ctx, task := trace.NewTask(context.Background(), "request")
	x.task = ctx
	trace.Log(ctx, "id", x.req.ID())
	t.Defer(func() {
		if x := exchangeOf(t); x != nil {
			trace.Log(ctx, "route", x.req.prefix)
		} else if h := takeoverOf(t); h != nil {
			trace.Log(ctx, "route", h.ofRoute().route)
		}
		task.End()
	})
}

// Handler answers one request, on the connection's thread. It returns the status; 0 means that of
// Response.SetStatus, or else 200. A status of 400 or above with an empty body gives the error
// page. Once the head has gone out (Flush, or more than 32 KiB written) the returned status is
// ignored; if it differs from that in the head, this is logged.
type Handler func(req *Request, resp *Response) int

// Serve calls h.
func (h Handler) Serve(req *Request, resp *Response) int { return h(req, resp) }

// Service is what has a Handler as its method Serve: a Handler itself, a router.
type Service interface {
	Serve(req *Request, resp *Response) int
}
