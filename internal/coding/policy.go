package coding

import (
	"strings"

	"github.com/lwango/lwango/internal/ascii"
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
// suffix (RFC 6839).
type Types struct {
	names    map[string]bool
	families []string // "text/"
	suffixes []string // "+json"
}

// EventStream is the type of server-sent events. "text/*" does not mean it: each event would be
// encoded once for each client, and most are too short to gain anything.
const EventStream = "text/event-stream"

// maxType is the length of the longest media type that is looked at.
const maxType = 80

// ParseTypes makes Types of a list of patterns. The second result is the first one that is none.
func ParseTypes(patterns []string) (t Types, bad string, ok bool) {
	t.names = make(map[string]bool)
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
// the types. It does not allocate.
func (t *Types) Match(contentType string) bool {
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
