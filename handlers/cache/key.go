package cache

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// A key is lines: the URL of a request or the text of a key of the operator's, then what else the
// answer may depend on. So all that is kept for a URL has it as its first line, and all below a
// folder begins with its URL.
//
//	https://example.org/shop/?page=2
//	example.org,www.example.org
//	/shop
//
// What is keyed is what is sent on. The path is the one that was sent, and not the decoded one: to
// an application "/a%2Fb" need not be "/a/b". What is no matter of taste, as "%61" for "a" and dot
// segments, is written in one way in the first line (see plainPath), so that a purge finds all
// ways. Behind it there are the names of the site and the prefix of the route, as all sites share a
// store; a target in absolute-form or of another spelling; a rewritten target, beside which
// the application sees the one that was sent; what the first line does not tell of the host, and
// where that is the operator's text, of the path; the listener's name; what the route's module says
// that its answers depend on (handlers.Dependence); and fields of which applications make links and
// choices, though no cache knows (cache poisoning): what a client sends there, it alone gets back.

// usualKey is how long a key is that is made on the stack.
const usualKey = 512

// maxKey is how long a key may be. A request with a longer one bypasses the cache.
const maxKey = 8 << 10

// spelling is what appendFirst has to say to appendRest.
type spelling struct {
	other   bool // the target was spelled in another way
	capital bool // the host has capital letters
}

// appendFirst appends the first line of the key of a request, without its end, and appendRest the
// rest.
func (l *layer) appendFirst(dst []byte, req *conn.Request) (_ []byte, way spelling) {
	if l.key != nil {
		return placeholder.Append(dst, req, l.key), way
	}
	from, target := len(dst), req.Layer().TargetView()
	dst, way.capital = appendOrigin(dst, req)
	at, path := len(dst), target
	if !originForm(target) {
		path = pathOf(target)
	}
	dst = append(dst, path...)
	if bytes.IndexByte(path, '%') >= 0 || bytes.Contains(path, []byte("/.")) ||
		bytes.HasPrefix(path, []byte("//")) {
		dst, way.other = plainPath(dst, at)
	}
	if l.sortQuery {
		dst = sortQuery(dst, from)
	}
	return dst, way
}

func (l *layer) appendRest(dst []byte, req *conn.Request, way spelling) []byte {
	r := req.Layer()
	target := r.TargetView()
	dst = append(append(dst, '\n'), l.own...)
	if way.other || !originForm(target) {
		dst = append(dst, target...)
	}
	dst = append(dst, '\n')
	if l.key != nil {
		dst = appendSent(dst, r, target)
	} else {
		if r.Rewrites() > 0 {
			dst = append(append(append(dst, r.RawPathView()...), '?'), r.QueryView()...)
		}
		dst = append(dst, '\n')
		if way.capital { // it goes to the application as it was sent, which may make links of it
			dst = append(dst, r.HostView()...)
		}
	}
	dst = append(append(dst, '\n'), r.Listener()...)
	if l.depends.AppendKey != nil {
		dst = l.appendDependence(append(dst, "\n="...), req) // no name of a field begins so
	}
	return r.AppendOverrides(dst)
}

// appendDependence appends what the module says. It gets memory of the heap for that, as a function
// that is not known here; the key itself stays on the stack.
func (l *layer) appendDependence(dst []byte, req *conn.Request) []byte {
	said := dependences.Get().(*[]byte)
	*said = l.depends.AppendKey((*said)[:0], req)
	dst = append(dst, *said...)
	dependences.Put(said)
	return dst
}

var dependences = sync.Pool{New: func() any { return new([]byte) }}

// appendSent appends what is sent on of the path and the host, and what a key of the operator's may
// tell as another one's: placeholders have the path decoded and clean, and the host without its
// port. What such a key leaves out of a URL in the usual form stays out.
func appendSent(dst []byte, r conn.RequestLayer, target []byte) []byte {
	if r.Rewrites() > 0 {
		path, _, _ := bytes.Cut(target, []byte("?"))
		dst = append(append(dst, path...), '?')
	}
	from := len(dst)
	dst = http1.AppendPath(dst, r.PathView())
	if raw := r.RawPathView(); !bytes.Equal(dst[from:], raw) {
		dst = append(dst[:from], raw...)
	} else {
		dst = dst[:from]
	}
	dst = append(dst, '\n')
	host := r.HostView()
	if bytes.ContainsFunc(host, func(c rune) bool { return c >= 'A' && c <= 'Z' }) {
		dst = append(dst, host...)
	} else if i := bytes.LastIndexByte(host, ':'); i > bytes.LastIndexByte(host, ']') {
		dst = append(dst, host[i:]...)
	}
	// {query} has no "?" with nothing behind it
	if withQuery := r.AppendQuery(dst); len(withQuery) == len(dst)+1 {
		return withQuery
	}
	return dst
}

// varies returns what an answer varies by whose Vary names fields that the server may make itself.
// Those that are the same for all requests with one key do not count, and by others no second
// request is known to be like the first.
func (l *layer) varies(v rfc9111.Vary) rfc9111.Vary {
	if l.depends.Sets == nil || v == rfc9111.VaryAny {
		return v
	}
	var names []string
	for name := range strings.SplitSeq(string(v), ",") {
		switch from := l.depends.Sets(name); {
		case from == handlers.FromClient:
			names = append(names, name)
		case from == handlers.FromServer, from == handlers.FromURL && l.key != nil:
			return rfc9111.VaryAny
		}
	}
	return rfc9111.Vary(strings.Join(names, ","))
}

// plainPath writes the path that begins at from, and has a query behind it or none, in the way that
// is the same for all applications (RFC 3986 section 6.2.2): dot segments are resolved, as they are
// in what is sent on, unreserved characters are no codes, and codes have capital letters. It
// reports whether the path was another one. The path is one that http1.CleanPath takes.
func plainPath(b []byte, from int) ([]byte, bool) {
	path, _, _ := bytes.Cut(b[from:], []byte("?"))
	other := false
	var space [usualKey]byte
	if resolved := http1.AppendResolved(space[:0], path); !bytes.Equal(resolved, path) {
		b, other = slices.Replace(b, from, from+len(path), resolved...), true
	}
	b, coded := plainCodes(b, from)
	return b, other || coded
}

// plainCodes is the part of plainPath that looks at codes: those that are none stay as they are.
func plainCodes(b []byte, from int) (_ []byte, other bool) {
	path, _, _ := bytes.Cut(b[from:], []byte("?"))
	code := bytes.IndexByte(path, '%')
	if code < 0 {
		return b, other
	}
	to := code
	for i := code; i < len(path); to++ {
		c := path[i]
		if c != '%' || i+2 >= len(path) || !hex(path[i+1]) || !hex(path[i+2]) {
			path[to] = c
			i++
			continue
		}
		x := nibble(path[i+1])<<4 | nibble(path[i+2])
		if unreserved(x) {
			path[to], other = x, true
		} else {
			const digits = "0123456789ABCDEF"
			high, low := digits[x>>4], digits[x&15]
			other = other || high != path[i+1] || low != path[i+2]
			path[to], path[to+1], path[to+2] = '%', high, low
			to += 2
		}
		i += 3
	}
	return slices.Delete(b, from+to, from+len(path)), other
}

func hex(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 6 }

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// unreserved is that of RFC 3986 section 2.3.
func unreserved(c byte) bool {
	return c-'0' < 10 || c|0x20-'a' < 26 || c == '-' || c == '.' || c == '_' || c == '~'
}

func originForm(target []byte) bool { return len(target) > 0 && target[0] == '/' }

// appendURL appends the URL of a target of the request's host.
func appendURL(dst []byte, req *conn.Request, target []byte) []byte {
	dst, _ = appendOrigin(dst, req)
	return append(dst, pathOf(target)...)
}

// appendOrigin appends the scheme and the host of a request, which it writes in small letters. It
// reports whether there were capital ones.
func appendOrigin(dst []byte, req *conn.Request) (_ []byte, capital bool) {
	scheme := "http://"
	if req.Secure() {
		scheme = "https://"
	}
	dst = append(dst, scheme...)
	for _, c := range req.Layer().HostView() {
		small := ascii.Lower(c)
		capital = capital || c != small
		dst = append(dst, small)
	}
	return dst, capital
}

// pathOf returns the path and query of a target, in whatever form it was sent.
func pathOf(target []byte) []byte {
	if originForm(target) {
		return target
	}
	if i := bytes.Index(target, []byte("://")); i >= 0 {
		target = target[i+len("://"):] // absolute-form: its host is the request's
		if i = bytes.IndexAny(target, "/?"); i < 0 {
			i = len(target)
		}
		target = target[i:]
	}
	if !originForm(target) {
		return append([]byte{'/'}, target...)
	}
	return target
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
