package conn

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/wire/http1"
)

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

// Path returns the target's path, or the rewritten one, with percent-encoding, dot segments and
// empty segments resolved. It begins with a slash and never leads above the root.
func (r *Request) Path() string {
	r.live()
	if len(r.path) > 0 && r.head.Path.Len() > 0 && &r.path[0] == &r.raw[r.head.Path.Start] {
		return r.string(r.head.Path)
	}
	return string(r.path)
}

// PathView is Path without a copy, valid until the handler returns.
func (r RequestLayer) PathView() []byte {
	r.live()
	return r.path
}

// SetPrefix notes the path prefix of the route that was taken. The router calls it.
func (r RequestLayer) SetPrefix(prefix string) { r.prefix = prefix }

// Prefix returns the path prefix of the route.
func (r *Request) Prefix() string { return r.prefix }

// SubPath returns the part of Path below the route's prefix; it begins with a slash.
func (r *Request) SubPath() string {
	n := r.prefixLen()
	if n >= len(r.path) {
		return "/"
	}
	return r.Path()[n:]
}

// RawQuery returns the query as it was sent or rewritten, without the question mark.
func (r *Request) RawQuery() string {
	if r.rewritten != "" {
		_, query, _ := strings.Cut(r.rewritten, "?")
		return query
	}
	return r.string(r.head.Query)
}

// Query returns the query's parameters; malformed ones are left out, as in net/url.
func (r *Request) Query() url.Values {
	if r.over() {
		return url.Values{}
	}
	if r.query == nil {
		r.query, _ = url.ParseQuery(r.RawQuery())
	}
	return r.query
}

// maxRewrites is how often a request can be rewritten. Rules that lead from one to the next need a
// few; more are a circle.
const maxRewrites = 10

// Rewrite gives the request another path and query, for all handlers that get it from here on. A
// target is a path, with percent-encoding where that is needed, and maybe a question mark and a
// query, without one the query is empty. The path is decoded and cleaned like one that a client has
// sent. Target stays what was sent, and so do the access log and REQUEST_URI of an application.
//
// Strings and views that were taken before stay as they are. Parameters of the query that Query or
// Form have returned are looked for anew. The request's route stays; the caller has to see to it
// that another one is chosen.
//
// The error is ErrRewrites if the request was rewritten 10 times before, and ErrTarget for a target
// that does not begin with a slash, leads above the root, or has a control character, a space or a
// malformed encoding in it. The request then stays as it was.
func (r RequestLayer) Rewrite(target string) error {
	path, _, _, err := r.target(target)
	if err != nil {
		return err
	}
	r.path, r.segments, r.rewritten = path, nil, target
	r.sent = sent{asked: r.sent.asked}
	r.query, r.form = nil, nil
	r.rewrites++
	return nil
}

// target takes a target apart that Rewrite or Forward is given. path is raw made clean, and a new
// one: views of the old one may be in use.
func (r *Request) target(target string) (path []byte, raw, query string, err error) {
	if r.over() {
		return nil, "", "", ErrComplete
	}
	if r.rewrites >= maxRewrites {
		return nil, "", "", ErrRewrites
	}
	raw, query, _ = strings.Cut(target, "?")
	if raw == "" {
		return nil, "", "", ErrTarget
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return nil, "", "", ErrTarget
		}
	}
	if path, err = http1.CleanPath(nil, []byte(raw)); err != nil {
		return nil, "", "", ErrTarget
	}
	return path, raw, query, nil
}

// Internal reports whether the client has not asked for what r asks for: r was rewritten or
// forwarded, is about an error page, is a Copy, or a handler asks another one by it (Subrequest).
func (r RequestLayer) Internal() bool { return r.internal || r.rewrites > 0 }

// ServerMade reports whether the server has made r of another request, so that no client has sent
// it: for an error page, by Forward or Subrequest, or as a Copy.
func (r RequestLayer) ServerMade() bool { return r.internal }

// Rewrites returns how often the request was rewritten.
func (r RequestLayer) Rewrites() int { return r.rewrites }

// Once reports whether it is called with that key for the first time in this request. It is for
// what stands in front of a handler and may be asked again about a rewritten request. Keys are
// compared as in a map; a pointer allocates nothing.
func (r RequestLayer) Once(key any) bool {
	if r.over() {
		return false
	}
	if _, ok := lookUp(r.values, key); ok {
		return false
	}
	r.values = append(r.values, value{key, onceOnly{}})
	return true
}

// QueryView is RawQuery without a copy, valid until the handler returns. It must not be changed.
func (r RequestLayer) QueryView() []byte {
	query, _ := r.sentQuery()
	return query
}

// matched is the pattern that a request was matched with.
type matched struct {
	pattern string
	names   []string    // of its wildcards
	values  [][2]uint32 // of theirs: beginning and end, in path
	path    []byte      // the request's at that time, decoded; Rewrite makes a new one

	kept []byte // see keep
}

// release drops the match. The memory for values and strings stays, for the next request.
func (m *matched) release() {
	if m.pattern != "" {
		m.pattern, m.names, m.values, m.path = "", nil, m.values[:0], nil
	}
}

// compact gives up what the request does not need.
func (m *matched) compact() {
	m.path, m.values, m.kept = bytes.Clone(m.path), slices.Clone(m.values), nil
}

// SetPattern notes the pattern that the request was matched with, the names of its wildcards, and
// beginning and end of the parts of SegmentsView that they stand for. The router calls it; values
// may be made of PathParts.
func (r RequestLayer) SetPattern(pattern string, names []string, values [][2]uint32) {
	m := &r.matched
	m.pattern, m.names, m.values, m.path = pattern, names, values, r.path
	if len(r.segments) > len(r.path) { // two slashes in a row of a segment are one in path
		m.path = bytes.ReplaceAll(r.segments, []byte(http1.EncodedSlash), []byte{'/'})
	}
}

// PathParts returns an empty slice for the last argument of SetPattern. It has memory of earlier
// requests, unless a pattern was set: then the handler of that one may still ask for its values.
func (r RequestLayer) PathParts() [][2]uint32 {
	if r.matched.pattern != "" {
		return nil
	}
	return r.matched.values[:0]
}

// Pattern returns the pattern that the request was matched with, as the program has registered it,
// such as "GET /items/{id}"; "" if no pattern has a part in it. Middleware around a whole Mux sees
// it when next has returned.
func (r *Request) Pattern() string { return r.matched.pattern }

// PathValue returns the part of the path that the wildcard of that name stands for, and "" if the
// pattern has no such wildcard. It is decoded; so it may have slashes in it, if the client has
// encoded them, but no segment of it is "." or "..", unless the handler makes one.
//
// Values are copied into blocks of 256 bytes, so most calls allocate nothing, and a string that is
// kept keeps such a block. PathValueView makes no copy.
func (r *Request) PathValue(name string) string {
	return r.matched.keep(r.Layer().PathValueView(name))
}

// PathValueView is PathValue without a copy, valid until the handler returns.
func (r RequestLayer) PathValueView(name string) []byte {
	r.live()
	m := &r.matched
	for i, n := range m.names {
		if n == name {
			from, to := m.values[i][0], m.values[i][1]
			return m.path[from:to:to]
		}
	}
	return nil
}

// keptBlock is the memory for the values of several requests.
const keptBlock = 256

// keep returns v as a string. Strings stand one behind the other in a block that is written once.
func (m *matched) keep(v []byte) string {
	if len(v) == 0 || len(v) > keptBlock/4 {
		return string(v)
	}
	if cap(m.kept)-len(m.kept) < len(v) {
		m.kept = make([]byte, 0, keptBlock)
	}
	at := len(m.kept)
	m.kept = append(m.kept, v...)
	return unsafe.String(&m.kept[at], len(v))
}

// RawPathView returns the path as the client has sent it, or as Rewrite was given it, before it was
// decoded and cleaned. It is valid until the handler returns, must not be changed, and is empty for
// a target without a path. What goes on to another program is SentPathView.
func (r RequestLayer) RawPathView() []byte {
	if r.rewritten != "" {
		raw, _, _ := strings.Cut(r.rewritten, "?")
		return view(raw)
	}
	return r.head.Path.Of(r.raw)
}

// SegmentsView returns the path with encoded slashes ("%2F") taken for parts of segments: it has a
// NUL (http1.EncodedSlash) in place of each, and its other slashes are those between segments.
// Without an encoded slash it is PathView. clean reports whether the path came clean, so that there
// was nothing to resolve but encodings; if it did not, the result is PathView. The path is valid
// until the handler returns.
func (r RequestLayer) SegmentsView() (path []byte, clean bool) {
	if r.segments == nil {
		r.segments, r.clean = http1.SplitPath(r.PathView(), r.RawPathView())
	}
	return r.segments, r.clean
}

// TargetView is Target without a copy, valid until the handler returns.
func (r RequestLayer) TargetView() []byte { return r.head.Target.Of(r.raw) }
