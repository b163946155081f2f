package conn

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/lwango/lwango/internal/base/goroutine"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// HTTPMiddleware makes middleware for Handlers of middleware for http.Handlers. m is called once,
// for each Handler that it wraps. Its handler runs on a goroutine of its own, off the loop, where
// it may block; there are as many of these goroutines as for HTTP. When it calls next, the Handler
// runs on the request's thread, as ever, and the goroutine waits.
//
// The Handler gets the request's context as m has made it (see Request.SetContext and ValueOf), and
// the header fields that m has set so far. Its answer goes through the ResponseWriter that m has
// given to next. If that is the one that m itself was given, the Handler can do all that it can do
// without m. If m has wrapped it, status, fields and body go through the wrapper, as they are made,
// and Flush and Hijack work if the wrapper has them, or Unwrap; only what needs the response itself
// does not: KeepOpen, a cache within m keeps nothing, and an http.Handler behind HTTP cannot
// hijack.
//
// A Handler that returns 0 and has written nothing leaves the answer to m, as an http.Handler that
// writes nothing does. The error page of an answer that has no body is made outside m, which sees
// its status alone. A panic of the Handler passes through m, as does one of http.ErrAbortHandler if
// the answer cannot be completed.
//
// If m has replaced the body of the request, the Handler reads m's, of which the length is unknown
// (Request.ContentLength is -1), and max_body_size limits it, too. Where Spool, MultipartForm and
// BindJSON would read what has arrived, they read m's as it comes.
//
// If a thread of req.Go fails, m goes on all the same. When it has returned, the failure counts as
// it does without m (see Request.Go).
//
// What m changes of the http.Request besides its context and its body does not reach the Handler.
// If m has replaced the method or the URL, calls next twice, or with the context of another
// request, next panics, and the client gets a 500. On another goroutine, next answers with 500 and
// logs why, and the ResponseWriter and the body return errors. Such middleware needs an
// http.Handler within (HTTP).
func HTTPMiddleware(m func(next http.Handler) http.Handler) func(next Handler) Handler {
	return func(next Handler) Handler {
		n := &nextHandler{handler: next}
		h := m(n)
		return func(req *Request, resp *Response) int {
			p := &pair{thread: req.Thread, jobs: make(chan job, 1)}
			a := n.begin(req, resp, p)
			if a == nil {
				return http.StatusBadRequest
			}
			ended, ok := req.takeBridge()
			if !ok {
				resp.Header().Set("Retry-After", "1")
				return http.StatusServiceUnavailable
			}
			a.to = &pairOutlet{outlet: resp, of: p, around: a}
			defer a.end() // also if the thread is killed
			req.Thread.Loop().Layer().StartGoroutine(func() {
				p.run(func() { h.ServeHTTP(a.writer, a.std) }, ended)
			})
			if v := p.serve(); v != nil {
				if v != http.ErrAbortHandler {
					v = &loop.PanicError{Value: v, Stack: p.stack}
				}
				panic(v)
			}
			return a.finish()
		}
	}
}

// HTTPMiddlewareOnLoop is HTTPMiddleware for middleware that does not block, such as one that looks
// at fields, makes spans, or counts. It runs on the request's thread, and costs less: what
// HTTPOnLoop says of a handler holds for m's.
func HTTPMiddlewareOnLoop(m func(next http.Handler) http.Handler) func(next Handler) Handler {
	return func(next Handler) Handler {
		n := &nextHandler{handler: next}
		h := m(n)
		return func(req *Request, resp *Response) int {
			a := n.begin(req, resp, nil)
			if a == nil {
				return http.StatusBadRequest
			}
			defer a.end()
			h.ServeHTTP(a.writer, a.std)
			return a.finish()
		}
	}
}

// nextHandler is what a middleware gets to wrap. It finds the request that it is called for by the
// request's context.
type nextHandler struct{ handler Handler }

// aroundKey is the key of an around in the context of its request.
type aroundKey struct{ next *nextHandler }

// around is a request that is within a middleware of net/http.
type around struct {
	httpWriter
	context.Context // of the http.Request
	next            *nextHandler
	req             *Request
	resp            *Response
	pair            *pair // nil: the middleware runs on the request's thread
	std             *http.Request
	writer          http.ResponseWriter // what the middleware was given
	body            loopBody
	sent            struct {
		method, path, query string
		body                io.ReadCloser
	}

	entered  bool   // next was called
	answered bool   // by the Handler, to resp itself
	status   int    // that the Handler has returned then
	bare     int    // the status of an error that may have a page; 0: there is none
	id       uint64 // of the goroutine, under the invariants tag
	hijacks  bool   // the Handler does, now
}

// Value implements context.Context.
func (a *around) Value(key any) any {
	if key == (aroundKey{a.next}) {
		return a
	}
	return a.Context.Value(key)
}

// begin makes the around of a request; nil: its target cannot be parsed.
func (n *nextHandler) begin(req *Request, resp *Response, p *pair) *around {
	a := &around{next: n, req: req, resp: resp, pair: p}
	body := io.ReadCloser(http.NoBody)
	if req.head.HasBody() {
		a.body.from, a.body.sent = req.Body(), true
		if body = &a.body; p != nil {
			body = &pairBody{body, p}
		}
	}
	std := req.standard(body)
	if std == nil {
		return nil
	}
	if invariants.Enabled {
		a.id = goroutine.ID()
	}
	a.body.req = std
	a.Context = std.Context()
	a.std = std.WithContext(a)
	a.sent.method, a.sent.path, a.sent.query = std.Method, std.URL.Path, std.URL.RawQuery
	a.sent.body = std.Body
	a.answerWriter = answerWriter{to: resp, req: a.std, log: req.x.set.Logger,
		server: req.x.c.port.server, declared: -1, counter: req.counter}
	a.writer = a.seen(req.hijacks())
	return a
}

// end disables what the middleware may have kept.
func (a *around) end() {
	if a.pair != nil {
		if a.pair.leave(); !a.pair.returned() { // the thread was killed, and all is the goroutine's
			return
		}
	}
	a.over = true
	a.body.from = nil
	a.req.x.via.setReadDeadline(zeroTime)
	a.removeForm()
}

// finish ends the answer on the request's thread, behind the middleware, and returns its status.
func (a *around) finish() int {
	if a.pair != nil {
		a.to.(*pairOutlet).begin()
		a.to = a.resp
	}
	switch {
	case a.answered:
		return a.status
	case a.hijacked:
		return a.resp.status
	}
	a.httpWriter.finish()
	if w := a.resp; a.bare == a.answerWriter.status && a.written == 0 && w.phase == open {
		w.manner = native // which has an error page
	}
	return a.resp.early
}

// ServeHTTP implements http.Handler. It is called by the middleware.
func (n *nextHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, _ := r.Context().Value(aroundKey{n}).(*around)
	switch {
	case a == nil:
		panic("conn: HTTPMiddleware: next was called with a context that is not the request's")
	case a.over:
		panic("conn: HTTPMiddleware: next was called after the request")
	case a.entered:
		panic("conn: HTTPMiddleware: next was called twice")
	case r.Method != a.sent.method, r.URL.Path != a.sent.path, r.URL.RawQuery != a.sent.query:
		panic("conn: HTTPMiddleware: the middleware has changed the request's method or URL, " +
			"which a native handler does not see; it needs an http.Handler behind it (HTTP)")
	}
	a.entered = true
	switch {
	case a.pair == nil:
		a.serve(w, r)
	case !a.pair.own(): // where nothing would recover a panic
		a.log.Error(errOtherGoroutine.Error(), a.about()...)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	default:
		_ = a.pair.onThread(func() { a.serve(w, r) })
	}
}

// middlewareBody reads a body that the middleware has put in the place of the request's, such as
// one with a limit, where the middleware runs.
type middlewareBody struct {
	of   *around
	sent *Body
	body io.Reader
}

// Read implements io.Reader.
func (b *middlewareBody) Read(p []byte) (n int, err error) {
	ahead := &b.of.body
	if b.sent.tryOnly && len(ahead.data) == 0 && ahead.err == nil {
		// What the middleware has made need not know stream.ErrWouldBlock.
		buf := make([]byte, len(p))
		n, err := b.sent.readSent(buf)
		if n == 0 && err == stream.ErrWouldBlock {
			return 0, err
		}
		ahead.data, ahead.err = buf[:n], err
	}
	b.of.call(func() { n, err = b.body.Read(p) })
	if errors.As(err, new(*http.MaxBytesError)) {
		err = b.sent.failed(ErrBodyTooLarge)
	}
	return n, err
}

// call runs f where the middleware runs. The thread calls it.
func (a *around) call(f func()) {
	if a.pair == nil {
		f()
		return
	}
	a.pair.onGoroutine(f)
}

// serve calls the Handler, on the request's thread.
func (a *around) serve(w http.ResponseWriter, r *http.Request) {
	if invariants.Enabled && a.pair == nil && a.id != goroutine.ID() {
		panic(errOtherGoroutine)
	}
	if ctx := r.Context(); ctx != context.Context(a) {
		defer a.req.useContext(ctx)()
	}
	replaced := r.Body != a.sent.body
	if replaced {
		b := a.req.Body()
		b.replacement = &replacedBody{Reader: &middlewareBody{of: a, sent: b, body: r.Body}}
		defer func() { b.replacement = nil }()
	}
	if w == a.writer && a.answerWriter.status == 0 && !replaced {
		a.direct()
	} else {
		a.through(w) // which has read the body to its end when it returns
	}
}

// direct lets the Handler answer to the response itself.
func (a *around) direct() {
	resp := a.resp
	if resp.phase == open {
		resp.header.merge(a.header)
	}
	returned := false
	defer func() {
		if !returned && resp.phase == open { // the middleware may recover, and answer
			resp.clear()
		}
	}()
	status := a.next.handler(a.req, resp)
	returned = true
	switch {
	case hasTakenOver(a.req.Thread) || resp.phase == hijacked:
		a.hijacked = true
	case status != 0 || resp.phase != open || !resp.empty():
		a.answered, a.status = true, status
		a.answerWriter.status = max(status, http.StatusOK)
	}
}

// empty reports whether the handler has made nothing of an answer but fields.
func (w *Response) empty() bool { return w.kind == gathered && len(w.buf) == 0 && w.early == 0 }

// merge makes the fields of h those of f for their names.
func (f *Header) merge(h http.Header) {
	if f.Len() > 0 {
		for name := range h {
			f.Del(name)
		}
	}
	f.fields = appendFields(f.fields, h)
}
