package conn

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// HTTP makes a Handler of an http.Handler, which may block. Requests run it on a goroutine each.
// After 32 similar ones that took at most 5 ms, or up to 8,192 if such tries have failed, it is
// tried in place, and stays there while it mostly answers at once (see
// loop.ThreadLayer.RunInPlace): the loop waits for it, and goes on without it if that takes a
// moment. In both cases it is off the loop, and may lock its OS thread; if it returns without
// having unlocked that, the thread goes on to other handlers. A connection may have one of these
// goroutines. Those of HTTP/2 may have MaxConnections more together, and one client address as many
// as are free, half of these if it is alone; a request beyond that gets 503. The thread stays with
// the request until the handler returns, and carries body and answer between client and handler, up
// to 32 KiB at a time, or 64 KiB once one side has filled that, so that neither side gets ahead of
// the other. In bulk, without TLS and encoders, the handler's goroutine moves the bytes itself.
//
// The http.Request is a complete copy; only the http.Server in its context is a stand-in. Its URL
// is the target as it was sent, not cleaned, and with the route's prefix: http.StripPrefix and
// http.ServeMux work as usual, and a handler that decides by the path has to clean it first, as
// these do. The context ends with the request, or when the client leaves, and the handler should
// heed it: the connection counts until the handler returns. After Hijack neither max_connections
// nor a stop concern the connection any more.
//
// The ResponseWriter has all methods that http.ResponseController can call, and is an
// http.CloseNotifier. EnableFullDuplex has no effect, since both directions always work. A deadline
// replaces the configuration's limits for the request. A body of up to 32 KiB gets a
// Content-Length; of up to 8 KiB, if a client of HTTP/2 takes less than 16 KiB at present. CR, LF
// and other controls in a header value become spaces, and a field whose name is no token is left
// out.
//
// If a thread of req.Go fails, the request's context ends for good. When the handler has returned,
// the failure counts as it does for any Handler (see Request.Go).
//
// A panic is answered with 500, or cuts the connection if the head is out; http.ErrAbortHandler
// cuts it in any case.
func HTTP(h http.Handler) Handler {
	all := new(habits)
	return func(req *Request, resp *Response) int {
		c := newBridge(req.x, h)
		c.habit = all.of(req.Method(), req.Path())
		body := io.ReadCloser(http.NoBody)
		if req.head.HasBody() {
			body = (*bridgeBody)(c)
		}
		std := req.standard(body)
		if std == nil {
			return http.StatusBadRequest
		}
		var ok bool
		if c.ended, ok = req.takeBridge(); !ok {
			resp.Header().Set("Retry-After", "1")
			return http.StatusServiceUnavailable
		}
		c.writer = httpWriter{answerWriter{to: c, req: std, log: req.x.set.Logger,
			server: req.x.c.port.server, declared: -1, counter: req.counter}}
		return c.serve(req, resp)
	}
}

// HTTPOnLoop is HTTP for a handler that does not block. It runs on the request's thread: reading
// the body, writing and flushing wait as they do in a Handler; nothing else may wait, http.Client
// included. A sync.Mutex must not be held in any of these calls, since the next thread that locks
// it would stop the loop; handlers that do so belong to HTTP. HTTPOnLoop costs less than net/http's
// own server. Request.Body and ResponseWriter are for that thread alone, until the handler returns.
// A file that is copied to the ResponseWriter goes by sendfile(2).
func HTTPOnLoop(h http.Handler) Handler {
	return func(req *Request, resp *Response) int {
		b := new(onLoop)
		body := io.ReadCloser(http.NoBody)
		if req.head.HasBody() {
			b.body.from = req.Body()
			body = &b.body
		}
		std := req.standard(body)
		if std == nil {
			return http.StatusBadRequest
		}
		b.body.req = std
		b.answerWriter = answerWriter{to: resp, req: std, log: req.x.set.Logger,
			server: req.x.c.port.server, declared: -1, counter: req.counter}
		defer b.end(req.x)
		h.ServeHTTP(b.seen(req.hijacks()), std)
		b.finish()
		return resp.early
	}
}

// onLoop is the ResponseWriter and the body of a handler on the loop.
type onLoop struct {
	httpWriter
	body loopBody
}

// end disables what the handler may have kept, so that it cannot touch the next request.
func (b *onLoop) end(x *exchange) {
	b.over = true
	b.body.from = nil
	x.via.setReadDeadline(zeroTime)
	b.removeForm()
}

// loopBody reads the body on the request's thread.
type loopBody struct {
	from *Body // nil: closed
	req  *http.Request
	data []byte // read ahead, see middlewareBody
	err  error  // behind data
	sent bool   // it is a middleware's, who may replace it: it reads what the client sends
}

// Read implements io.Reader.
func (b *loopBody) Read(p []byte) (int, error) {
	if b.from == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	var n int
	var err error
	if len(b.data) > 0 || b.err != nil {
		n = copy(p, b.data)
		if b.data = b.data[n:]; len(b.data) == 0 {
			err, b.err = b.err, nil
		}
	} else if !b.sent {
		n, err = b.from.Read(p)
	} else {
		if b.from.replacement != nil { // a middleware's reader need not know stream.ErrWouldBlock
			defer func(from *Body, before bool) { from.tryOnly = before }(b.from, b.from.tryOnly)
			b.from.tryOnly = false
		}
		n, err = b.from.readSent(p)
	}
	if err == io.EOF && b.from.chunked() {
		addTrailer(b.req, b.from.trailer())
	}
	return n, err
}

// Close implements io.Closer.
func (b *loopBody) Close() error {
	b.from = nil
	return nil
}

// standard returns r as an http.Request, nil if its target cannot be parsed.
func (r *Request) standard(body io.ReadCloser) *http.Request {
	h := &r.head
	target := r.Target()
	seen := target
	if r.rewritten != "" {
		seen = r.rewritten
	}
	u, err := url.ParseRequestURI(seen)
	if err != nil {
		return nil
	}
	std := http.Request{
		Method:        r.Method(),
		URL:           u,
		Proto:         r.Proto(),
		ProtoMajor:    1,
		ProtoMinor:    int(h.Minor),
		Header:        r.standardHeader(),
		Body:          body,
		ContentLength: r.ContentLength(),
		Close:         !h.Persistent(),
		Host:          r.Host(),
		RequestURI:    target,
		TLS:           r.TLS(),
	}
	if remote := r.RemoteAddr(); remote.IsValid() {
		std.RemoteAddr = remote.String()
	} else {
		std.RemoteAddr = "@" // as in net/http, for a client without an address
	}
	if r.x.protocol != "" {
		std.ProtoMajor, std.ProtoMinor, std.Close = 2, 0, false
	} else if h.Chunked {
		std.TransferEncoding = []string{"chunked"}
	}
	if h.Chunked {
		std.Trailer = announced(std.Header)
		r.body.KeepTrailer()
	}
	ctx := &requestContext{Context: r.Context(), local: r.LocalAddr()}
	if by, ok := r.Deadline(); ok {
		within, cancel := context.WithDeadline(ctx.Context, by)
		ctx.Context = within
		r.Defer(cancel)
	}
	ctx.id = append(ctx.idText[:0], r.Layer().IDView()...)
	of := std.WithContext(ctx)
	of.Pattern = r.Pattern()
	for _, name := range r.matched.names {
		of.SetPathValue(name, r.PathValue(name))
	}
	return of
}

// standardHeader copies the header: a map and one array for all values.
func (r *Request) standardHeader() http.Header {
	fields := r.Header().fields
	header := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for _, f := range fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		switch name {
		case "Host", "Transfer-Encoding": // these are fields of http.Request
			continue
		}
		if old := header[name]; old != nil {
			header[name] = append(old, f.Value)
			continue
		}
		values[0] = f.Value
		header[name], values = values[:1:1], values[1:]
	}
	if p := header["Pragma"]; len(p) > 0 && p[0] == "no-cache" && header["Cache-Control"] == nil {
		header["Cache-Control"] = []string{"no-cache"} // as net/http does (RFC 9111 section 5.4)
	}
	return header
}

// announced takes the Trailer field out of a header, and returns the keys that it names.
func announced(header http.Header) http.Header {
	var trailer http.Header
	for _, list := range header["Trailer"] {
		eachTrailer(list, func(name string) {
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[name] = nil
		})
	}
	delete(header, "Trailer")
	return trailer
}

// addTrailer gives the trailer fields to a handler that has read the body to its end.
func addTrailer(std *http.Request, trailer http.Header) {
	if len(trailer) > 0 && std.Trailer == nil {
		std.Trailer = make(http.Header)
	}
	for name, values := range trailer {
		std.Trailer[name] = values
	}
}

// trailer returns the trailer fields of a chunked body that was read to its end.
func (b *Body) trailer() (trailer http.Header) {
	b.Trailer(func(name, value string) {
		if trailer == nil {
			trailer = make(http.Header)
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		trailer[key] = append(trailer[key], value)
	})
	return trailer
}

// eachTrailer calls f with the names in the value of a Trailer field, except those that a trailer
// cannot have.
func eachTrailer(list string, f func(name string)) {
	ascii.EachElement(list, func(name string) bool {
		if key := textproto.CanonicalMIMEHeaderKey(name); http1.ValidToken(key) && !tooLate(key) {
			f(key)
		}
		return true
	})
}

// requestContext is a request's context with the two values that net/http adds, and the id.
type requestContext struct {
	context.Context
	local  netip.AddrPort
	id     []byte
	idText [32]byte // of an id that was made
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	switch {
	case key == http.ServerContextKey:
		return standIn
	case key == idKey{}:
		return string(c.id)
	case key != http.LocalAddrContextKey:
		return c.Context.Value(key)
	case !c.local.IsValid():
		return net.Addr(&net.UnixAddr{Net: "unix"})
	}
	return net.Addr(net.TCPAddrFromAddrPort(c.local))
}

// standIn is an http.Server that does not serve. Without one in the context httputil.ReverseProxy
// assumes that it runs in a test, and ends an answer that its origin has cut as if it were whole.
var standIn = new(http.Server)
