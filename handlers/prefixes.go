package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/lwango/lwango/conn"
)

// prefixTree holds the routes of a site, one level per path segment. A walk from the root meets the
// prefixes of a path in the order of their length and ends at the first segment that no route has,
// so no path costs more than the deepest route. (With one map of all prefixes, a look-up would hash
// a path once for each of its slashes, and the client chooses how many there are.)
type prefixTree struct {
	target   *target
	exact    *[2]*target // for the very path, without a slash at its end and with one; nil: none
	children map[string]*prefixTree
}

// add puts a route into the tree, and returns its target. It refuses a prefix that no cleaned path
// can match: the mistake would show as 404 only.
func (t *prefixTree) add(prefix string, exact bool, h conn.Handler) (*target, error) {
	if !strings.HasPrefix(prefix, "/") {
		return nil, fmt.Errorf("%q does not begin with a slash", prefix)
	}
	clean := strings.TrimSuffix(prefix, "/")
	for rest := []byte(clean); len(rest) > 0; {
		var next []byte
		next, rest = cutSegment(rest)
		segment := string(next)
		switch segment {
		case "":
			return nil, fmt.Errorf("%q has an empty segment, which no cleaned path has", prefix)
		case ".", "..":
			return nil, fmt.Errorf("%q has a dot segment, which no cleaned path has", prefix)
		}
		child := t.children[segment]
		if child == nil {
			child = new(prefixTree)
			if t.children == nil {
				t.children = make(map[string]*prefixTree)
			}
			t.children[segment] = child
		}
		t = child
	}
	at := &t.target
	if exact {
		if t.exact == nil {
			t.exact = new([2]*target)
		}
		at = &t.exact[len(prefix)-len(clean)]
	}
	if *at != nil {
		return nil, fmt.Errorf("%q: %w", prefix, errTwice)
	}
	*at = &target{prefix: clean, handler: h, exact: exact}
	return *at, nil
}

var errTwice = errors.New("named twice")

// find returns the target for the very path, or else that of its longest prefix, nil if there is
// none. A map look-up by
// string(bytes) does not allocate.
func (t *prefixTree) find(path []byte) *target {
	if len(path) == 0 || path[0] != '/' {
		return nil
	}
	found := t.target
	for len(path) > 1 && t.children != nil { // behind a slash at the end there is no segment
		var segment []byte
		segment, path = cutSegment(path)
		if t = t.children[string(segment)]; t == nil {
			break
		}
		if t.target != nil {
			found = t.target
		}
	}
	if t != nil && t.exact != nil && len(path) <= 1 {
		if e := t.exact[len(path)]; e != nil {
			return e
		}
	}
	return found
}

// cutSegment splits "/a/b" into "a" and "/b".
func cutSegment(path []byte) (segment, rest []byte) {
	path = path[1:]
	if i := bytes.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, nil
}
