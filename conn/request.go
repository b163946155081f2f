package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
)

// Request is a request as its handler sees it, with what the handler's thread can wait for.
//
// A Request belongs to that thread, and is valid until the handler returns. Strings may be kept.
// They are parts of one copy of the head, which is made when the handler asks for the first of
// them.
type Request struct {
	// Thread is the green thread that the handler runs on, for functions that take one: loop.Go,
	// Dial, Subscribe of a topic. A handler does not need its methods: those that are meant for a
	// handler are the request's, too.
	Thread *loop.Thread

	x    *exchange
	head http1.Head
	raw  []byte // the head's bytes, to which head points

	text      string // copy of raw
	path      []byte // decoded and clean: part of raw, or in pathBuf
	pathBuf   []byte
	prefix    string
	header    Header
	body      Body
	query     url.Values
	form      url.Values
	multipart *multipart.Form
	ctx       context.Context
	cancel    context.CancelCauseFunc
	id        uint64
}

// begin makes r, released, ready for the request whose head was read.
func (r *Request) begin(x *exchange) {
	r.x, r.Thread = x, &x.c.Thread
	r.body.reset(x)
}

// release drops what the last request left. The head and its bytes stay: they belong to readHead.
func (r *Request) release() {
	r.Thread = nil
	r.text, r.prefix = "", ""
	r.path, r.query, r.form, r.multipart = nil, nil, nil, nil
	r.ctx, r.cancel = nil, nil
	r.id = 0
	if r.header.Len() > 0 {
		r.header.reset()
	}
}

// compact gives up buffers that are larger than the request needs.
func (r *Request) compact() {
	path := string(r.path)
	r.raw = bytes.Clone(r.raw)
	r.path, r.pathBuf = []byte(path), nil
	r.text, r.header = "", Header{}
	r.head.Fields = slices.Clip(slices.Clone(r.head.Fields))
}

func (r *Request) string(s http1.Span) string {
	if s.Len() == 0 {
		return ""
	}
	if r.text == "" {
		r.text = string(r.raw)
	}
	return r.text[s.Start:s.End]
}

// Method returns the method, such as GET; methods are case-sensitive (RFC 9110 section 9.1).
func (r *Request) Method() string { return r.head.Method.String() }

// Target returns the request target as it was sent (RFC 9112 section 3.2).
func (r *Request) Target() string { return r.string(r.head.Target) }

// cleanPath sets path, and reports whether there is a valid one.
func (r *Request) cleanPath() bool {
	if r.head.Path.Len() == 0 { // an absolute-form target without one
		r.path = rootPath
		return true
	}
	path, err := http1.CleanPath(r.pathBuf[:0], r.head.Path.Of(r.raw))
	if err != nil {
		return false
	}
	if &path[0] != &r.raw[r.head.Path.Start] {
		r.pathBuf = path
	}
	r.path = path
	return true
}

var rootPath = []byte("/")

// Path returns the target's path with percent-encoding, dot segments and empty segments resolved.
// It begins with a slash and never leads above the root.
func (r *Request) Path() string {
	if len(r.path) > 0 && r.head.Path.Len() > 0 && &r.path[0] == &r.raw[r.head.Path.Start] {
		return r.string(r.head.Path)
	}
	return string(r.path)
}

// PathView is Path without a copy, valid until the handler returns.
func (r *Request) PathView() []byte { return r.path }

// SetPrefix notes the path prefix of the route that was taken. The router calls it.
func (r *Request) SetPrefix(prefix string) { r.prefix = prefix }

// Prefix returns the path prefix of the route.
func (r *Request) Prefix() string { return r.prefix }

// SubPath returns the part of Path below the route's prefix; it begins with a slash.
func (r *Request) SubPath() string {
	n := len(r.prefix)
	if n > 0 && r.prefix[n-1] == '/' {
		n--
	}
	if n >= len(r.path) {
		return "/"
	}
	return r.Path()[n:]
}

// RawQuery returns the query as it was sent, without the question mark.
func (r *Request) RawQuery() string { return r.string(r.head.Query) }

// Query returns the query's parameters; malformed ones are left out, as in net/url.
func (r *Request) Query() url.Values {
	if r.query == nil {
		r.query, _ = url.ParseQuery(r.RawQuery())
	}
	return r.query
}

// Proto returns HTTP/1.0 or HTTP/1.1.
func (r *Request) Proto() string {
	if r.head.Minor == 0 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// Host returns the effective authority: that of the target if it has one, else the Host field (RFC
// 9112 section 3.3). It may have a port.
func (r *Request) Host() string { return r.string(r.head.Host) }

// HostView is Host without a copy, valid until the handler returns.
func (r *Request) HostView() []byte { return r.head.Host.Of(r.raw) }

// Header returns the header fields. A handler may change them for the handlers that it calls.
func (r *Request) Header() *Header {
	if r.header.Len() == 0 {
		for _, f := range r.head.Fields {
			r.header.Add(r.string(f.Name), r.string(f.Value))
		}
	}
	return &r.header
}

// HeaderView returns the value of the first field of that name without a copy. The value is valid
// until the handler returns.
func (r *Request) HeaderView(name string) ([]byte, bool) { return r.head.Get(r.raw, name) }

// AppendHeaderViews appends the values of all fields of that name to dst. They are valid until the
// handler returns.
func (r *Request) AppendHeaderViews(dst [][]byte, name string) [][]byte {
	for i := range r.head.Fields {
		if f := &r.head.Fields[i]; ascii.EqualFold(f.Name.Of(r.raw), name) {
			dst = append(dst, f.Value.Of(r.raw))
		}
	}
	return dst
}

// Body returns the request body, decoded; it is empty if there is none. Reading it waits for the
// client.
func (r *Request) Body() *Body { return &r.body }

// ContentLength returns the length of the body in bytes; -1 if it is chunked.
func (r *Request) ContentLength() int64 {
	if r.head.Chunked {
		return -1
	}
	return max(r.head.ContentLength, 0)
}

// RemoteAddr returns the client's address; the zero AddrPort on UNIX sockets.
func (r *Request) RemoteAddr() netip.AddrPort { return r.x.c.remote.addrPort() }

// LocalAddr returns the address that the client connected to.
func (r *Request) LocalAddr() netip.AddrPort {
	if p := r.x.c.port; p.local.IsValid() {
		return p.local
	}
	return loop.LocalAddr(r.Thread.FD())
}

// TLS returns the state of the TLS connection, nil on a plain one.
func (r *Request) TLS() *tls.ConnectionState {
	if r.x.c.tls == nil {
		return nil
	}
	state := r.x.c.tls.ConnectionState()
	return &state
}

// Secure reports whether the connection is a TLS connection.
func (r *Request) Secure() bool { return r.x.c.tls != nil }

// ID returns a number that no other request of this server has.
func (r *Request) ID() uint64 {
	if r.id == 0 {
		r.id = r.x.c.port.server.ids.Add(1)
	}
	return r.id
}

// Context returns a context that is canceled when the request ends, or when the loop sees the
// client leave; then its cause is loop.ErrClientGone. Other goroutines may use the context.
func (r *Request) Context() context.Context {
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
		if r.Gone() {
			r.cancel(loop.ErrClientGone)
		} else if r.x.c.x != r.x { // the connection was hijacked
			r.Defer(func() { r.cancel(nil) })
		}
	}
	return r.ctx
}

// Cookie returns the value of the first cookie of that name.
func (r *Request) Cookie(name string) (value string, ok bool) {
	for _, c := range r.Cookies() {
		if c.Name == name {
			return c.Value, true
		}
	}
	return "", false
}

// Cookies returns the cookies of all Cookie fields; malformed ones are left out.
func (r *Request) Cookies() []*http.Cookie {
	lines := r.Header().Values("Cookie")
	if len(lines) == 0 {
		return nil
	}
	std := http.Request{Header: http.Header{"Cookie": lines}}
	return std.Cookies()
}
