package conn

import (
	"context"
	"math/rand/v2"
)

// RequestIDField is the header field that carries a request's id from one server to the next. A
// trusted proxy may name the id in it, and upstreams are told it there.
const RequestIDField = "X-Request-ID"

// maxID is how many bytes an id of a proxy may have. A UUID has 36; some programs add a path of
// hops.
const maxID = 128

// makeID appends a new id: 128 random bits. They are the runtime's, which every OS thread makes by
// itself (ChaCha8): no lock, no system call, and a client that sees some ids cannot tell others.
func makeID(b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, part := range [...]uint64{rand.Uint64(), rand.Uint64()} {
		for shift := 60; shift >= 0; shift -= 4 {
			b = append(b, hex[part>>shift&15])
		}
	}
	return b
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
	if r.idView == nil && r.proxied {
		r.idView = r.givenID()
	}
	if r.idView == nil {
		r.idView = makeID(r.idText[:0])
	}
	return r.idView
}

// idKey is the key of an id in the context of an http.Request.
type idKey struct{}

// RequestID returns the id of the request that ctx belongs to (see Request.ID), for an http.Handler;
// "" if ctx is not that of such a request. Any goroutine may call it.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}
