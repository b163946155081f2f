package conn

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/http1"
)

// matched is the pattern that a request was matched with.
type matched struct {
	pattern string
	names   []string     // of its wildcards
	values  []http1.Span // of theirs, in path
	path    []byte       // the request's at that time; Rewrite makes a new one

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
// the parts of PathView that they stand for. The router calls it; values may be made of PathParts.
func (r RequestLayer) SetPattern(pattern string, names []string, values []Span) {
	m := &r.matched
	m.pattern, m.names, m.values, m.path = pattern, names, values, r.path
}

// PathParts returns an empty slice for the last argument of SetPattern. It has memory of earlier
// requests, unless a pattern was set: then the handler of that one may still ask for its values.
func (r RequestLayer) PathParts() []Span {
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
			return m.values[i].Of(m.path)
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
// decoded and cleaned. It is valid until the handler returns, and empty for a target without a
// path.
func (r RequestLayer) RawPathView() []byte {
	if r.rewritten != "" {
		raw, _, _ := strings.Cut(r.rewritten, "?")
		return []byte(raw)
	}
	return r.head.Path.Of(r.raw)
}

// SegmentsView returns the path with encoded slashes ("%2F") taken for parts of segments: it has a
// NUL (http1.EncodedSlash) in place of each, and its other slashes are those between segments.
// Without an encoded slash it is PathView. clean reports whether the path came clean, so that there
// was nothing to resolve but encodings; if it did not, a segment may have dots between encoded
// slashes ("x/../y"). The path is valid until the handler returns.
func (r RequestLayer) SegmentsView() (path []byte, clean bool) {
	if r.segments == nil {
		r.segments, r.clean = http1.SplitPath(r.PathView(), r.RawPathView())
	}
	return r.segments, r.clean
}
