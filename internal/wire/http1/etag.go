package http1

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

// MatchETag reports whether etag, that of the selected representation, matches a list of entity
// tags as in If-Match and If-None-Match (RFC 9110 sections 13.1.1 and 13.1.2), or is matched by
// "*". weak chooses the comparison of section 8.8.3.2: If-None-Match needs the weak one, which
// looks at the opaque part alone; If-Match and If-Range the strong one, to which a weak tag equals
// nothing, not even itself. An empty etag means that there is no representation, and matches
// nothing. A malformed list matches by its tags up to the fault, so that both preconditions err on
// the safe side: a change is not made, a representation is sent again.
func MatchETag[L string | []byte](list L, etag string, weak bool) bool {
	if etag == "" {
		return false
	}
	list = ascii.TrimOWS(list)
	if string(list) == "*" {
		return true
	}
	for len(list) > 0 {
		if list[0] == ',' || list[0] == ' ' || list[0] == '\t' {
			list = list[1:]
			continue
		}
		tag, rest := cutETag(list)
		if len(tag) == 0 {
			return false
		}
		if sameETag(tag, etag, weak) {
			return true
		}
		if rest = ascii.TrimOWS(rest); len(rest) > 0 && rest[0] != ',' {
			return false
		}
		list = rest
	}
	return false
}

// ValidETag reports whether s is an entity tag: a quoted string without escapes, perhaps behind W/.
func ValidETag(s string) bool {
	tag, rest := cutETag(s)
	return tag != "" && rest == ""
}

// cutETag cuts an entity tag off the front of s: a quoted string without escapes, perhaps behind W/
// (RFC 9110 section 8.8.3). tag is empty if there is none.
func cutETag[T string | []byte](s T) (tag, rest T) {
	i := 0
	if len(s) >= 2 && s[0] == 'W' && s[1] == '/' { // case-sensitive, RFC 9110 section 8.8.3
		i = 2
	}
	if i == len(s) || s[i] != '"' {
		return s[:0], s
	}
	for i++; i < len(s) && class[s[i]]&isETag != 0; i++ {
	}
	if i == len(s) || s[i] != '"' {
		return s[:0], s
	}
	return s[:i+1], s[i+1:]
}

func sameETag[T string | []byte](a T, b string, weak bool) bool {
	if !weak {
		return string(a) == b && b[0] == '"'
	}
	if a[0] == 'W' {
		a = a[2:]
	}
	return string(a) == strings.TrimPrefix(b, "W/")
}
