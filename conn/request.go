package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Request is a request as its handler sees it, with what the handler's thread can wait for.
//
// A Request belongs to that thread, and is valid until the handler returns. Strings may be kept.
// They are parts of a copy of the head, which is made when the handler asks for the first of them:
// of the whole head, or, while it asks for parts of the target alone, of what ends with the target.
//
// The server uses a Request and its Response again, for any client. So a goroutine that outlives
// the handler, or another handler, must not have them: it takes with it what it needs. If it uses
// them all the same, between two requests the Request is empty, waits and writes return ErrComplete
// and the rest does nothing or panics; during another request it reads and changes that one. A
// program that is tested with the build tag invariants panics in both cases, most likely. Then a
// goroutine that uses the Response while the handler runs or waits panics, too. The race detector
// tells of goroutines as well.
type Request struct {
	// Thread is the green thread that the handler runs on, for functions that take one: loop.Go,
	// Dial, Subscribe of a topic. A handler does not need its methods: those that are meant for a
	// handler are the request's, too.
	Thread *loop.Thread

	x    *exchange
	head http1.Head
	raw  []byte // the head's bytes, to which head points

	body    Body
	matched matched
	values  []value // see Set and Once
	header  Header  // see Header
	pathBuf []byte
	idText  [32]byte // of an id that was made

	noted
}

// noted is what was found out, or set, about one request. Nothing of it is left for the next one.
type noted struct {
	text      string // copy of raw, or of its beginning, as far as strings were asked for
	path      []byte // decoded and clean: part of raw, in pathBuf, or of rewritten
	sent      sent
	segments  []byte // see SegmentsView; nil: not made yet
	clean     bool   // see SegmentsView
	listed    bool   // header is what the request has, and head.Fields what the client has sent
	internal  bool   // not what the client has asked for; see Internal
	older     uint32 // as many of values are older than the context of SetContext
	rewrites  int
	rewritten string // the target that takes the place of the head's; see Rewrite
	prefix    string
	user      string
	authType  string
	seen      *seen    // what contexts have of values and user; nil: to be made
	replaced  []string // names; see ReplaceHeader
	query     url.Values
	form      url.Values
	multipart *multipart.Form
	id        string
	idView    []byte   // the same: a part of raw, or of idText; nil: not decided
	idOf      *Request // the one whose id it is; nil: its own

	counter uint32    // see SetCounter
	log     AccessLog // see LogTo; nil: the server's

	// What trusted proxies say of the client, see applyForwarded.
	proxied bool
	scheme  http1.Scheme
	client  netip.AddrPort // invalid: the connection's
}

// begin makes r, released, ready for the request whose head was read.
func (r *Request) begin(x *exchange, t *loop.Thread) {
	r.x, r.Thread = x, t
	r.body.begin(x)
}

// release drops what the last request left. The head and its bytes stay: they belong to readHead.
func (r *Request) release() {
	r.Thread = nil
	r.matched.release()
	if len(r.values) > 0 {
		clear(r.values)
		r.values = r.values[:0]
	}
	if r.listed {
		r.header.reset()
	}
	r.noted = noted{}
}

// compact gives up buffers that are larger than the request needs.
func (r *Request) compact() {
	path := string(r.path)
	r.raw = bytes.Clone(r.raw)
	r.path, r.pathBuf, r.segments, r.sent = []byte(path), nil, nil, sent{}
	r.matched.compact()
	if r.idView != nil && &r.idView[0] != &r.idText[0] {
		r.idView = bytes.Clone(r.idView)
	}
	if r.listed && r.changed() {
		r.header.detach()
	} else {
		r.header, r.listed = Header{}, false
	}
	r.text = ""
	r.head.Fields = slices.Clip(slices.Clone(r.head.Fields))
}

// string returns a part of raw. Most handlers want the path or the query alone, and a browser's
// fields are ten times as long.
func (r *Request) string(s http1.Span) string {
	r.live()
	if s.Len() == 0 {
		return ""
	}
	if int(s.End) > len(r.text) {
		n := len(r.raw)
		if s.End <= r.head.Target.End {
			n = int(r.head.Target.End)
		}
		r.text = string(r.raw[:n])
	}
	return r.text[s.Start:s.End]
}

// Method returns the method, such as GET, which may be any token of up to 64 bytes, but not
// CONNECT. Methods are case-sensitive (RFC 9110 section 9.1). A handler answers 405 to those that
// it does not know.
func (r *Request) Method() string {
	r.live()
	if r.head.Method == http1.Other {
		return r.string(r.head.Name)
	}
	return r.head.Method.String()
}

// Target returns the request target as it was sent (RFC 9112 section 3.2).
func (r *Request) Target() string { return r.string(r.head.Target) }

// Proto returns HTTP/1.0, HTTP/1.1 or HTTP/2.0.
func (r *Request) Proto() string {
	if r.x != nil && r.x.protocol != "" {
		return r.x.protocol
	}
	if r.head.Minor == 0 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// Host returns the effective authority: what a trusted proxy says (Config.Proxies), else the one of
// the target if it has one, else the Host field (RFC 9112 section 3.3). It may have a port.
func (r *Request) Host() string { return r.string(r.head.Host) }

// HostView is Host without a copy, valid until the handler returns.
func (r RequestLayer) HostView() []byte { return r.head.Host.Of(r.raw) }

// SetUser notes who the client is, for the handlers that are called from now on and for the access
// log. name has no control characters. authType says how the server has found it out, such as
// "Basic". Then the Authorization field was for the server: Header does not have it any more, since
// no other program needs the password (RFC 3875 section 4.1.18). authType is empty if another
// program has decided; then the field stays.
func (r RequestLayer) SetUser(name, authType string) {
	if r.over() {
		return
	}
	r.user, r.authType, r.seen = name, authType, nil
	if authType != "" {
		r.header.Del("Authorization")
	}
}

// User returns the name of the user that SetUser was told; "" if there is none.
func (r *Request) User() string {
	r.live()
	return r.user
}

// AuthType returns how the server itself has found out the user, such as "Basic"; "" if it has not.
func (r *Request) AuthType() string { return r.authType }

// Body returns the request body, decoded; it is empty if there is none. Reading it waits for the
// client.
func (r *Request) Body() *Body {
	r.live()
	return &r.body
}

// ContentLength returns the length of the body in bytes; -1 if it is chunked, or if middleware of
// net/http has replaced it.
func (r *Request) ContentLength() int64 {
	if r.head.Chunked || r.body.replacement != nil && r.head.HasBody() {
		return -1
	}
	return max(r.head.ContentLength, 0)
}

// RemoteAddr returns the client's address; the zero AddrPort on UNIX sockets. Where trusted proxies
// are in front (Config.Proxies), it is the address of their client, as far as they say; its port is
// 0 if they do not say it. See PeerAddr for the address of the connection itself.
func (r *Request) RemoteAddr() netip.AddrPort {
	if r.client.IsValid() {
		return r.client
	}
	if r.over() {
		return netip.AddrPort{}
	}
	return r.x.c.remote.addrPort()
}

// LocalAddr returns the address that the client connected to, or, if the request is Proxied, that a
// proxy connected to. With the PROXY protocol it is the one that the header names.
func (r *Request) LocalAddr() netip.AddrPort {
	if r.over() {
		return netip.AddrPort{}
	}
	if w := r.x.c.proxyHeader(); w != nil && w.known {
		return w.local.addrPort()
	}
	return r.x.c.localAddr()
}

// Listener returns the name of the listener that accepted the connection (Listener.Name).
func (r RequestLayer) Listener() string {
	if r.over() {
		return ""
	}
	return r.x.c.port.Name
}

// TLS returns the state of the TLS connection, nil on a plain one.
func (r *Request) TLS() *tls.ConnectionState {
	if r.over() {
		return nil
	}
	if r.x.c.tls == nil {
		if w := r.x.c.proxyHeader(); w != nil && w.original != nil {
			return w.original.tls
		}
		return nil
	}
	state := r.x.c.tls.ConnectionState()
	return &state
}

// ClientVerify returns the result of the verification of the certificate that the client has shown
// in the handshake: "NONE", "SUCCESS" or "FAILED:" with a reason; "" if it was not asked for one.
func (r RequestLayer) ClientVerify() string {
	if r.over() {
		return ""
	}
	return r.x.c.clientVerify()
}

// ClientCertificate returns the certificate that the client has shown, verified or not (see
// ClientVerify); nil: none. It must not be changed.
func (r RequestLayer) ClientCertificate() *x509.Certificate {
	if r.over() {
		return nil
	}
	return r.x.c.clientCertificate()
}

// Secure reports whether the client uses https: whether the connection is a TLS connection or, if a
// trusted proxy says it (Config.Proxies), the client's own connection is one. The PROXY protocol
// says it by a field of version 2; without one, by port 443 as what the client has connected to.
func (r *Request) Secure() bool {
	if r.scheme != http1.UnknownScheme {
		return r.scheme == http1.HTTPS
	}
	return !r.over() && (r.x.c.tls != nil || r.x.c.state&secured != 0)
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

// BasicAuth returns the name and the password of an Authorization field of the Basic scheme (RFC
// 7617). ok is false if there is none, or a malformed one. The field is not there any more if the
// server has checked it (see SetUser and User). Compare the password in constant time
// (crypto/subtle).
func (r *Request) BasicAuth() (name, password string, ok bool) {
	field := r.Header().Get("Authorization")
	n, p, ok := http1.BasicCredentials(make([]byte, len(field)), []byte(field))
	return string(n), string(p), ok
}

// RequestIDField is the header field that carries a request's id from one server to the next. A
// trusted proxy may name the id in it, and upstreams are told it there.
const RequestIDField = "X-Request-ID"

// maxID is how many bytes an id of a proxy may have. A UUID has 36; some programs add a path of
// hops.
const maxID = 128

// makeID makes a new id: 128 random bits. They are the runtime's, which every OS thread makes by
// itself (ChaCha8): no lock, no system call, and a client that sees some ids cannot tell others.
func makeID(id *[32]byte) {
	for b := id[:]; len(b) >= 16; b = b[16:] {
		x := rand.Uint64()
		binary.BigEndian.PutUint64(b, hexOf(uint32(x>>32)))
		binary.BigEndian.PutUint64(b[8:], hexOf(uint32(x)))
	}
}

// hexOf returns the eight hexadecimal digits of x, the first one in the highest byte.
func hexOf(x uint32) uint64 {
	const ones = 0x0101010101010101
	v := uint64(x)
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & 0x0f0f0f0f0f0f0f0f // a digit in each byte
	letters := (v + 6*ones) >> 4 & ones // those above 9
	return v + '0'*ones + letters*('a'-'0'-10)
}

// givenID returns the id that a trusted proxy has named; nil: none. Of two fields one may be the
// client's, so neither counts. Every letter of an id is one that needs no escape in a log, a shell
// or a URL's path.
func (r *Request) givenID() []byte {
	id, next := r.Layer().HeaderViewFrom(RequestIDField, 0)
	if next < 0 || len(id) == 0 || len(id) > maxID {
		return nil
	}
	if _, next = r.Layer().HeaderViewFrom(RequestIDField, next); next >= 0 {
		return nil
	}
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '+', c == '/', c == '=', c == '@':
		default:
			return nil
		}
	}
	return id
}

// ID returns the request's id, which the access log, lines of the log about the request, and
// upstreams have as well. It is what a trusted proxy has named in X-Request-ID (Config.Proxies), if
// that is 1 to 128 letters, digits and signs of "-_.:+/=@", or else 32 hexadecimal digits that no
// other request has. No id is made for a request as long as nothing asks for it.
func (r *Request) ID() string {
	if r.id == "" && !r.over() {
		r.id = string(r.Layer().IDView())
	}
	return r.id
}

// IDView is ID without a copy, valid until the handler returns.
func (r RequestLayer) IDView() []byte {
	if r.over() {
		return nil // one that is made now must not be the next request's
	}
	if r.idView == nil && r.idOf != nil {
		r.idView = r.idOf.Layer().IDView()
	}
	if r.idView == nil && r.proxied {
		r.idView = r.givenID()
	}
	if r.idView == nil {
		makeID(&r.idText)
		r.idView = r.idText[:]
	}
	return r.idView
}

// idKey is the key of an id in the context of an http.Request.
type idKey struct{}

// RequestID returns the id of the request that ctx belongs to (see Request.ID), for an
// http.Handler; "" if ctx is not such a request's. Any goroutine may call it.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// bytesPerField is for how many bytes of the largest head there may be a field line. With the
// default of 16 KiB this is http1.MaxFields.
const bytesPerField = 64

var (
	errHeadTooSlow   = &http1.Error{Status: 408, Reason: "request head not complete in time"}
	errHeadTooLarge  = &http1.Error{Status: 431, Reason: "request head too large"}
	errTargetTooLong = &http1.Error{Status: 414, Reason: "request line too long"}
	errOverload      = &http1.Error{Status: 503, Reason: "too many connections"}
)
