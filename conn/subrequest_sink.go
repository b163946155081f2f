package conn

import (
	"context"
	"crypto/tls"
	"slices"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Sink takes the answer to a background subrequest
// (RequestLayer.StartBackground). All calls but Over come from the subrequest's thread.
type Sink interface {
	// Inform takes the head of an interim response.
	Inform(status int, fields []Field)

	// Head takes the head, once. h is valid until Head returns. The slice of the fields is the sink's
	// from then on, until it releases the subrequest, and the strings stay as they are. If Head
	// returns true, the sink has taken an answer that is Whole with its content, and Over comes next.
	Head(h *SentHead) (taken bool)

	// Write takes a piece of the content, which is valid until Write returns. It may wait, on t, which
	// is the subrequest's thread. After an error it is not called again.
	Write(t *loop.Thread, p []byte) error

	// Flush says that the handler may not go on for long.
	Flush()

	// End comes behind the last piece, with the fields behind the content: the answer is complete.
	// sound is false if the handler has written more, or another length, than it had declared, or
	// doubts its end itself (ResponseLayer.MarkEndUncertain); then the answer may not be what was
	// meant.
	End(trailer []Field, sound bool)

	// Over comes last, on the subrequest's loop, once: the subrequest's thread has ended. Without an
	// End before it the answer has broken off, or there is none, and err is the reason.
	Over(err error)
}

// BackgroundSubrequest is a request without a client of its own, which a handler answers on a
// thread of its own. The zero value is none.
type BackgroundSubrequest struct{ of *background }

// Cancel says that nobody wants the answer any more: the handler's waits end. It is called on the
// subrequest's loop.
func (e BackgroundSubrequest) Cancel() { e.of.Thread.Layer().SetClientGone() }

// Loop returns the loop of the subrequest.
func (e BackgroundSubrequest) Loop() *loop.Loop { return e.of.Thread.Loop() }

// Release says that nobody uses the subrequest, or the fields of its head, any more: it is going to
// be another one. It is called on the subrequest's loop, once Over was called, or not at all.
func (e BackgroundSubrequest) Release() {
	if e.of.usedOffLoop || invariants.Enabled {
		return
	}
	if p := e.of.port; len(p.backgrounds) < maxSpare {
		e.of.drop()
		p.backgrounds = append(p.backgrounds, e.of)
	}
}

// background is a BackgroundSubrequest as the package has it: its thread, exchange and carrier.
type background struct {
	proxyConnection           // what is known of the client; its Thread is the subrequest's
	x               *exchange // nil: it is over
	h               Handler
	sink            Sink

	ofOriginal  originalClient // original points here
	sends       []byte         // what is left of the request's body
	whole       bool           // head and content are there at once: end passes them on
	content     []byte         // then
	headed      bool
	ended       bool  // all of the answer was passed on
	unsound     bool  // see Sink.End
	forwarded   bool  // see SentHead.Forwarded
	err         error // why the answer cannot be completed
	spent       int   // bytes since other threads ran
	usedOffLoop bool  // a function that runs off the loop may have it
	upstream    upstream

	copied
	said SentHead
}

// drop makes a background subrequest, which is over, hold nothing but memory to use again, of the
// usual size. Its thread stays as it is: what notifies it does not know that it has ended.
func (e *background) drop() {
	e.h, e.sink, e.ofOriginal, e.sends, e.content, e.err = nil, nil, originalClient{}, nil, nil, nil
	e.whole, e.headed, e.ended, e.unsound, e.forwarded, e.spent = false, false, false, false, false, 0
	e.upstream, e.admission = upstream{}, admissionState(0)
	e.localNumber, e.logGeneration, e.logUsed = 0, 0, 0
	sent := e.said.Fields[:0]
	e.said = SentHead{}
	if cap(e.raw) > usualRaw || cap(e.fields) > usualFields || cap(sent) > usualFields {
		e.raw, e.fields = nil, nil
		return
	}
	clear(sent[:cap(sent)])
	e.said.Fields = sent
}

// spareBackground returns a background subrequest to use.
func (p *port) spareBackground() *background {
	n := len(p.backgrounds)
	if n == 0 {
		return new(background)
	}
	e := p.backgrounds[n-1]
	p.backgrounds[n-1] = nil
	p.backgrounds = p.backgrounds[:n-1]
	return e
}

// backgroundBudget is how many bytes a background subrequest moves before other threads get their
// turn.
const backgroundBudget = stream.TurnBudget

// StartBackground has h answer what r asks for on a new thread of r's loop, and sink takes the
// answer. The subrequest does not end when r does. To h it is a GET with r's target and with r's
// header, except what is about a body's framing, conditions, ranges and the connection; extra are
// in place of r's fields of these names. Its client is the same as r's, but the thread's waits do
// not end when that leaves. The access log has no line of a background subrequest, and no counter
// counts it.
//
// It is called on r's thread. h begins when that thread waits, or has returned.
func (r RequestLayer) StartBackground(h Handler, sink Sink, extra []Field) BackgroundSubrequest {
	e := r.background(namesNotOfAnother, notOfBackground, extra)
	e.x.req.head.Method = http1.GET
	return e.begin(r.Thread.Loop(), h, sink)
}

// notOfBackground is ofThisAlone but for what a GET says of a body that it does not have: handlers
// get that without a background subrequest as well, and some choose an answer by it.
func notOfBackground(name string) bool {
	return ofThisAlone(name) && !ascii.EqualFold(name, "Content-Type") &&
		!ascii.EqualFold(name, "Content-Encoding")
}

// Copy is a copy of a request, to be sent on a background subrequest of its own when its body is
// known.
type Copy struct{ of *background }

// notOfACopy are the fields of a request that a copy does not have: it has its body at hand,
// without trailers, and no connection that could be upgraded.
var notOfACopy = []string{"Content-Length", "Transfer-Encoding", "Trailer", "Expect", "Upgrade"}

var namesNotOfACopy = http1.NamesOf(notOfACopy...)

// Copy makes a copy of the request as it is now, with below, a clean path without a slash at its
// end, in front of its path. The copy is Internal. It needs nothing of the request or its client
// any more, so both may end before it.
func (r RequestLayer) Copy(below string) Copy {
	e := r.background(namesNotOfACopy, func(name string) bool {
		return slices.ContainsFunc(notOfACopy, func(s string) bool { return ascii.EqualFold(name, s) })
	}, nil)
	q := &e.x.req
	q.internal, q.head.Expect100 = true, false
	raw := append(http1.AppendPath(nil, []byte(below)), r.SentPathView()...)
	q.setTarget(append([]byte(below), r.PathView()...), raw, r.RawQuery())
	q.rewritten = "" // the head says the same
	return Copy{e}
}

// Start is RequestLayer.StartBackground for the copy, which gets that body. It is called once, on
// l, the loop of the request.
func (c Copy) Start(l *loop.Loop, body []byte, h Handler, sink Sink) BackgroundSubrequest {
	e := c.of
	if e.sends = body; len(body) > 0 {
		e.x.req.body = Body{x: e.x, state: bodyOpen, limit: -1}
		e.x.req.head.ContentLength = int64(len(body))
	}
	return e.begin(l, h, sink)
}

// background copies r, without the fields that drop tells, which are among dropped, and without the
// body.
func (r RequestLayer) background(dropped http1.NameSet, drop func(name string) bool,
	extra []Field) *background {
	of := r.x.c
	e := of.port.spareBackground()
	e.port, e.state, e.known, e.remote = of.port, headed|named|of.state&secured, true, of.remote
	e.local = peerOf(r.LocalAddr())
	if r.Secure() {
		e.state |= secured
	}
	var state *tls.ConnectionState
	if e.state&secured != 0 {
		state = r.TLS()
	}
	e.ofOriginal = originalClient{ctx: r.contextValues(), tls: state}
	if e.ofOriginal.ctx != context.Background() {
		e.ofOriginal.ctx = context.WithoutCancel(e.ofOriginal.ctx)
	}
	e.original = &e.ofOriginal
	x := of.port.spareExchange()
	e.x = x
	x.c, x.via, x.set, x.protocol, x.background = &e.connection, e, r.x.set, r.x.protocol, e
	e.copyTo(&x.req, r.Request, dropped, drop, extra)
	if id := r.IDView(); len(id) > 0 {
		x.req.idView = append(x.req.idText[:0], id...)
	}
	x.req.x = x
	x.req.body.none(x)
	return e
}

// begin has h answer on a new thread of l.
func (e *background) begin(l *loop.Loop, h Handler, sink Sink) BackgroundSubrequest {
	e.h, e.sink = h, sink
	e.x.began = l.Time()
	e.x.resp.begin(e.x)
	l.Layer().Begin(&e.Thread, e)
	return BackgroundSubrequest{e}
}

// TookUpstream notes for the access log what e has said of its upstream so far (SetUpstream). It is
// called on the subrequest's loop.
func (r RequestLayer) TookUpstream(e BackgroundSubrequest) {
	if x := e.of.x; x != nil {
		r.x.upstream = x.upstream
	} else {
		r.x.upstream = e.of.upstream
	}
}

// IsBackground reports whether the request is a background subrequest's: then what is said of its
// upstream may be asked for before it is over.
func (r RequestLayer) IsBackground() bool { return r.x.background != nil }

// CacheFor tells the cache that has sent the request what an application says in X-Accel-Expires, a
// field of that name. Without a cache nobody gets it.
func (w ResponseLayer) CacheFor(value string) {
	if (w.x.background != nil || w.tap != nil) && value != "" {
		w.Header().Add(rfc9111.FieldXAccelExpires, value)
	}
}

// Run implements loop.Task.
func (e *background) Run(t *loop.Thread) coro.Code {
	defer e.leave(t) // also when a handler ends its goroutine, or the thread is killed
	x := e.x
	x.req.Thread = t
	mark := t.Mark()
	status := x.call(e.h)
	x.finishDuplex()
	if x.clientLeft { // the handler has given up, and what it returns means nothing
		x.resp.fail(true)
	}
	x.resp.finish(status)
	t.RunDeferred(mark)
	return coro.Abort
}

// leave ends the use of the exchange.
func (e *background) leave(t *loop.Thread) {
	t.RunDeferred(0)
	x := e.x
	e.x, e.upstream = nil, x.upstream
	if t.Layer().AbandonCalls() {
		e.usedOffLoop = true
		x.abandon()
		return
	}
	x.end()
	e.port.keepExchange(x)
}

// maxSpare is how many exchanges a port keeps for later background subrequests.
const maxSpare = 64

// spareExchange returns an exchange for a background subrequest.
func (p *port) spareExchange() *exchange {
	if n := len(p.spare); n > 0 && !invariants.Enabled {
		x := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return x
	}
	return newExchange()
}

// keepExchange keeps an exchange that has ended.
func (p *port) keepExchange(x *exchange) {
	x.clear()
	x.background = nil
	x.req = Request{header: x.req.header} // it has views of the subrequest's own bytes
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, x)
	}
}

// ClientGone implements loop.Task.
func (e *background) ClientGone() {
	if e.x != nil {
		if a := e.x.resp.tap; a != nil && a.leave() {
			return
		}
		e.x.canceled(loop.ErrClientGone)
	}
}

// Ended implements loop.Task.
func (e *background) Ended() {
	if e.err == nil && !e.ended {
		e.err = errAborted
	}
	e.sink.Over(e.err)
}
