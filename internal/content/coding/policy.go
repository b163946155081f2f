package coding

import (
	"strings"
	"sync/atomic"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Policy says which bodies are encoded, and how. It is made once, and then read on all loops. A nil
// Policy encodes nothing.
type Policy struct {
	Order   []Coding // best first
	MinSize int64    // in bytes; what is shorter is not worth it
	Level   int      // 1 to 9
	Types   Types

	Cache *Cache // of files; nil: none are kept
}

// Worth reports whether a body of that length, in bytes, and type is encoded.
func (p *Policy) Worth(n int64, contentType string) bool {
	return n >= max(p.MinSize, 1) && p.Types.Match(contentType)
}

// Types are patterns of media types: "text/plain", "text/*", and "*+json" for all types with that
// suffix (RFC 6839). Any goroutine may call its methods.
type Types struct {
	names    map[string]bool
	families []string // "text/"
	suffixes []string // "+json"

	// known has what Match has found out of lasting types, by slotOf. A server sends few of them,
	// again and again. None makes way for another, so nobody makes Match allocate for long.
	known *[128]atomic.Pointer[verdict]
}

// verdict is what Match has found out about a Content-Type.
type verdict struct {
	contentType string
	match       bool
}

// slotOf chooses a place in known by the length and three characters, in which most types differ.
func slotOf(contentType string) uint {
	n := len(contentType)
	if n == 0 {
		return 0
	}
	a, b, c := contentType[0], contentType[n/2], contentType[n-1]
	return (uint(n) + 3*uint(a) + 5*uint(b) + 7*uint(c)) % 128
}

// EventStream is the type of server-sent events. "text/*" does not mean it: each event would be
// encoded once for each client, and most are too short to gain anything.
const EventStream = "text/event-stream"

// maxType is the length of the longest media type that is looked at.
const maxType = 80

// ParseTypes makes Types of a list of patterns. The second result is the first one that is none.
func ParseTypes(patterns []string) (t Types, bad string, ok bool) {
	t.names, t.known = make(map[string]bool), new([128]atomic.Pointer[verdict])
	for _, p := range patterns {
		lower := strings.ToLower(p)
		main, sub, slash := strings.Cut(lower, "/")
		switch {
		case strings.HasPrefix(lower, "*+") && len(lower) > 2 && isName(lower[2:]):
			t.suffixes = append(t.suffixes, lower[1:])
		case slash && isName(main) && sub == "*":
			t.families = append(t.families, main+"/")
		case slash && isName(main) && isName(sub) && len(lower) <= maxType:
			t.names[lower] = true
		default:
			return t, p, false
		}
	}
	return t, "", true
}

func isName(s string) bool { return s != "" && !strings.ContainsAny(s, "*/;, \t\r\n") }

// Match reports whether a Content-Type, in any case of letters and with any parameters, is one of
// the types. It allocates only for what it remembers.
func (t *Types) Match(contentType string) bool {
	if t.known == nil || len(contentType) > maxType {
		return t.match(contentType)
	}
	known := &t.known[slotOf(contentType)]
	v := known.Load()
	if v != nil && v.contentType == contentType {
		return v.match
	}
	match := t.match(contentType)
	if v == nil && lasting(contentType) {
		// A copy, since the caller's may be a view of an answer's head.
		known.CompareAndSwap(nil, &verdict{strings.Clone(contentType), match})
	}
	return match
}

// lasting reports whether a Content-Type may come again: it has no parameter, or a charset alone.
// Others may be new with each answer, such as a boundary, and would take the places of those that
// last.
func lasting(contentType string) bool {
	_, parameters, _ := strings.Cut(contentType, ";")
	parameters = ascii.TrimOWS(parameters)
	return parameters == "" ||
		ascii.HasPrefixFold(parameters, "charset=") && strings.IndexByte(parameters, ';') < 0
}

// match is Match, found out anew.
func (t *Types) match(contentType string) bool {
	if i := strings.IndexByte(contentType, ';'); i >= 0 {
		contentType = contentType[:i]
	}
	contentType = ascii.TrimOWS(contentType)
	if contentType == "" || len(contentType) > maxType {
		return false
	}
	var space [maxType]byte
	name := space[:len(contentType)]
	for i := range name {
		name[i] = ascii.Lower(contentType[i])
	}
	if t.names[string(name)] {
		return true
	}
	for _, f := range t.families {
		if len(name) > len(f) && string(name[:len(f)]) == f {
			return string(name) != EventStream
		}
	}
	for _, s := range t.suffixes {
		if n := len(name) - len(s); n > 0 && string(name[n:]) == s {
			return true
		}
	}
	return false
}
