package conn

import (
	"errors"
	"strings"

	"github.com/lwango/lwango/internal/http1"
)

// maxRewrites is how often a request can be rewritten. Rules that lead from one to the next need a
// few; more are a circle.
const maxRewrites = 10

// Errors of Rewrite.
var (
	ErrRewrites = errors.New("conn: the request was rewritten 10 times")
	ErrTarget   = errors.New("conn: not a valid target for a rewritten request")
)

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
	path, _, err := r.target(target)
	if err != nil {
		return err
	}
	r.path, r.segments, r.rewritten = path, nil, target
	r.query, r.form = nil, nil
	r.rewrites++
	return nil
}

// target takes a target apart that Rewrite or Forward is given. The path is clean, and a new one:
// views of the old one may be in use.
func (r *Request) target(target string) (path []byte, query string, err error) {
	if r.over() {
		return nil, "", ErrComplete
	}
	if r.rewrites >= maxRewrites {
		return nil, "", ErrRewrites
	}
	raw, query, _ := strings.Cut(target, "?")
	if raw == "" {
		return nil, "", ErrTarget
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return nil, "", ErrTarget
		}
	}
	if path, err = http1.CleanPath(nil, []byte(raw)); err != nil {
		return nil, "", ErrTarget
	}
	return path, query, nil
}

// Internal reports whether the client has not asked for what r asks for: r was rewritten or
// forwarded, is about an error page, or a handler asks another one by it (Ask).
func (r RequestLayer) Internal() bool { return r.internal || r.rewrites > 0 }

// Rewrites returns how often the request was rewritten.
func (r RequestLayer) Rewrites() int { return r.rewrites }

// Once reports whether it is called with that key for the first time in this request. It is for
// what stands in front of a handler and may be asked again about a rewritten request. Keys are
// compared as in a map; a pointer allocates nothing.
func (r RequestLayer) Once(key any) bool {
	if r.over() {
		return false
	}
	if _, ok := r.value(key); ok {
		return false
	}
	r.values = append(r.values, value{key, onceOnly{}})
	return true
}

// QueryView is RawQuery without a copy, valid until the handler returns.
func (r RequestLayer) QueryView() []byte {
	if r.rewritten != "" {
		return []byte(r.RawQuery())
	}
	return r.head.Query.Of(r.raw)
}
