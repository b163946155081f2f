package rfc9111

import (
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// maxDelta is what a larger number of seconds counts as (RFC 9111 section 1.2.2): 68 years. A
// Duration has room for four of them.
const maxDelta = 1 << 31

// unset is the value of a directive that is not there.
const unset time.Duration = -1

// directives calls f with each directive of a value of Cache-Control (RFC 9111 section 5.2): its
// name as sent, and its argument, of which a quoted string has lost its quotes. bare says that
// there is none. A quoted string may contain commas. It returns false if a part is no directive: a
// quoted string without an end, or text behind an argument. Such a part ends at the next comma and
// is passed over, so what stands behind it still counts.
func directives[T string | []byte](value T, f func(name, argument T, bare bool)) (ok bool) {
	ok = true
	for len(value) > 0 {
		n := 0
		for n < len(value) && value[n] != ',' && value[n] != '=' {
			n++
		}
		name := ascii.TrimOWS(value[:n])
		if n == len(value) || value[n] == ',' {
			value = value[min(n+1, len(value)):]
			switch {
			case len(name) == 0: // RFC 9110 section 5.6.1.2
			case http1.ValidToken(name):
				f(name, name[:0], true)
			default:
				ok = false
			}
			continue
		}
		// No white space is allowed around "=". What has some is no directive.
		good := len(name) == n || len(name) > 0 && value[n-1] == name[len(name)-1]
		rest := value[n+1:]
		argument, rest, quoted := cutArgument(rest)
		end := 0
		for end < len(rest) && rest[end] != ',' {
			end++
		}
		if len(ascii.TrimOWS(rest[:end])) > 0 || !good || !http1.ValidToken(name) ||
			!quoted && len(argument) == 0 {
			ok = false
			good = false
		}
		if good {
			f(name, argument, false)
		}
		value = rest[min(end+1, len(rest)):]
	}
	return ok
}

// cutArgument cuts a token or a quoted string off the front of s. Escapes stay as they are: no
// argument that means something needs one. Where a quoted string has no end, there is none.
func cutArgument[T string | []byte](s T) (argument, rest T, quoted bool) {
	if len(s) > 0 && s[0] == '"' {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return s[1:i], s[i+1:], true
			}
		}
		return s[:0], s, false
	}
	i := 0
	for i < len(s) && s[i] != ',' && s[i] != ' ' && s[i] != '\t' && s[i] != '"' {
		i++
	}
	return s[:i], s[i:], false
}

// delta reads a number of seconds (RFC 9111 section 1.2.2): digits alone.
func delta[T string | []byte](s T) (d time.Duration, ok bool) {
	var n int64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), maxDelta)
	}
	return time.Duration(n) * time.Second, len(s) > 0
}

// set takes the argument of a directive that limits freshness. Such a directive that is no number,
// or is there twice with different numbers, means stale (RFC 9111 section 4.2.1).
func set[T string | []byte](to *time.Duration, argument T) {
	d, ok := delta(argument)
	switch {
	case !ok:
		*to = 0
	case *to == unset:
		*to = d
	case *to != d:
		*to = 0
	}
}
