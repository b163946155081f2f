package cache

import (
	"bytes"
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/placeholder"
)

// A key is lines: the URL of a request or the text of a key of the operator's, then what else the
// answer may depend on. So all that is kept for a URL has it as its first line, and all below a
// folder begins with its URL.
//
//	https://example.org/shop/?page=2
//	example.org,www.example.org
//	/shop
//
// The path is the one that was sent, and not the decoded one: to an application "/a%2Fb" need not
// be "/a/b". Behind it there are the names of the site and the prefix of the route, as all sites
// share a store; a target in absolute-form; a rewritten target, beside which the application sees
// the one that was sent; the listener's name; and fields of which applications make links and
// choices, though no cache knows (cache poisoning): what a client sends there, it alone gets back.

// usualKey is how long a key is that is made on the stack.
const usualKey = 512

// maxKey is how long a key may be. A request with a longer one goes past the cache.
const maxKey = 8 << 10

// appendKey appends the key of a request.
func (l *layer) appendKey(dst []byte, req *conn.Request) []byte {
	r := req.Layer()
	if l.key != nil {
		dst = append(append(placeholder.Append(dst, req, l.key), '\n'), l.own...)
		dst = append(dst, "\n\n"...)
		return r.AppendSteering(append(dst, r.Listener()...))
	}
	from, target := len(dst), r.TargetView()
	dst = appendURL(dst, req, target)
	if l.sortQuery {
		dst = sortQuery(dst, from)
	}
	dst = append(append(dst, '\n'), l.own...)
	if !originForm(target) {
		dst = append(dst, target...)
	}
	dst = append(dst, '\n')
	if r.Rewrites() > 0 {
		dst = append(dst, r.RawPathView()...)
		dst = append(append(dst, '?'), r.QueryView()...)
	}
	dst = append(dst, '\n')
	return r.AppendSteering(append(dst, r.Listener()...))
}

func originForm(target []byte) bool { return len(target) > 0 && target[0] == '/' }

// appendURL appends the URL of a target of the request's host.
func appendURL(dst []byte, req *conn.Request, target []byte) []byte {
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
	if i := bytes.Index(target, []byte("://")); i >= 0 && !originForm(target) {
		target = target[i+len("://"):] // absolute-form: its host is the request's
		if i = bytes.IndexAny(target, "/?"); i < 0 {
			i = len(target)
		}
		target = target[i:]
	}
	if !originForm(target) {
		dst = append(dst, '/')
	}
	return append(dst, target...)
}

// maxParameters is how many parameters are sorted, at most: more take the loop's time.
const maxParameters = 128

// sortQuery sorts the parameters of the target that begins at from by their names, unless
// applications may disagree about what these are: then another order may be another answer
// (parameter cloaking). A query with very many, or of a URL that is no key, stays as it is.
func sortQuery(b []byte, from int) []byte {
	i := bytes.IndexByte(b[from:], '?')
	if i < 0 || bytes.IndexByte(b[from+i:], '&') < 0 || bytes.IndexByte(b[from+i:], ';') >= 0 {
		return b
	}
	query := b[from+i+1:]
	if len(b)-from > maxKey || bytes.Count(query, []byte("&")) >= maxParameters {
		return b
	}
	parts := bytes.Split(bytes.Clone(query), []byte("&"))
	for _, p := range parts {
		if bytes.ContainsFunc(parameter(p), odd) || open(p) {
			return b
		}
	}
	slices.SortStableFunc(parts, func(a, b []byte) int {
		return slices.CompareFunc(parameter(a), parameter(b), func(a, b byte) int {
			return int(alike(a)) - int(alike(b))
		})
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

// parameter returns the name of a parameter, without the brackets of a list or table: "a" of
// "a[x]=1".
func parameter(part []byte) []byte {
	if i := bytes.IndexAny(part, "=["); i >= 0 {
		return part[:i]
	}
	return part
}

// open reports whether the name of a parameter has a bracket that is not closed: to PHP "a[b" is
// "a_b".
func open(part []byte) bool {
	name, _, _ := bytes.Cut(part, []byte("="))
	_, key, list := bytes.Cut(name, []byte("["))
	return list && bytes.IndexByte(key, ']') < 0
}

// odd reports whether a name with this character may be the same as one that is written in another
// way.
func odd(c rune) bool {
	return (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '-' && c != '.'
}

// alike returns a letter that is the same for all that some applications take for the same in
// names: many do not look at case, and to PHP "a.b" is "a_b".
func alike(c byte) byte {
	if c == '.' {
		return '_'
	}
	return ascii.Lower(c)
}
