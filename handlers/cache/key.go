package cache

import (
	"bytes"
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/placeholder"
)

// A key is the URL of a request, a line end, and what else the answer may depend on. So all that is
// kept for a URL begins with URL and line end, and all below a folder with its URL.
//
//	https://example.org/shop/?page=2\n
//
// The path is the one that was sent, and not the decoded one: to an application "/a%2Fb" need not
// be "/a/b". Behind the line end there are a rewritten target, beside which the application sees the
// one that was sent, the listener's name, and fields of which applications make links and choices,
// though no cache knows (cache poisoning): what a client sends there, it alone gets back.

// usualKey is how long a key is that is made on the stack.
const usualKey = 512

// maxKey is how long a key may be. A request with a longer one goes past the cache.
const maxKey = 8 << 10

// appendKey appends the key of a request.
func (l *layer) appendKey(dst []byte, req *conn.Request) []byte {
	r := req.Layer()
	if l.key != nil {
		dst = append(placeholder.Append(dst, req, l.key), '\n')
		return r.AppendSteering(append(dst, r.Listener()...))
	}
	dst = l.appendURL(dst, req, r.TargetView())
	if r.Rewrites() > 0 {
		dst = append(dst, r.RawPathView()...)
		dst = append(append(dst, '?'), r.QueryView()...)
	}
	dst = append(dst, '\n')
	return r.AppendSteering(append(dst, r.Listener()...))
}

// appendOther appends the key that a request for another target of the same host would have.
func (l *layer) appendOther(dst []byte, req *conn.Request, target string) []byte {
	r := req.Layer()
	dst = append(l.appendURL(dst, req, []byte(target)), '\n')
	return r.AppendSteering(append(dst, r.Listener()...))
}

// appendURL appends the first line of a key.
func (l *layer) appendURL(dst []byte, req *conn.Request, target []byte) []byte {
	if req.Secure() {
		dst = append(dst, "https://"...)
	} else {
		dst = append(dst, "http://"...)
	}
	host := len(dst)
	dst = append(dst, req.Layer().HostView()...)
	for i := host; i < len(dst); i++ {
		dst[i] = ascii.Lower(dst[i])
	}
	at := len(dst)
	dst = append(dst, target...)
	if l.sortQuery {
		dst = sortQuery(dst, at)
	}
	return append(dst, '\n')
}

// sortQuery sorts the parameters of the target that begins at from.
func sortQuery(b []byte, from int) []byte {
	i := bytes.IndexByte(b[from:], '?')
	if i < 0 || bytes.IndexByte(b[from+i:], '&') < 0 {
		return b
	}
	query := b[from+i+1:]
	parts := bytes.Split(bytes.Clone(query), []byte("&"))
	slices.SortStableFunc(parts, func(a, b []byte) int {
		a, _, _ = bytes.Cut(a, []byte("="))
		b, _, _ = bytes.Cut(b, []byte("="))
		return bytes.Compare(a, b)
	})
	at := query[:0]
	for i, p := range parts {
		if i > 0 {
			at = append(at, '&')
		}
		at = append(at, p...)
	}
	return b
}
