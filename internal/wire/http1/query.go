package http1

import "strings"

// EscapeQuery returns a query as it may stand in a URI (RFC 3986 section 3.4): what clients send
// raw and is not allowed there is percent-encoded, and nothing else is changed. It is for what goes
// out again, in a Location for one, where a raw byte above 0x7f is taken for another character by
// one recipient than by the next.
func EscapeQuery(query string) string { return escape(query, inQuery) }

// EscapeValue returns text as the value of a parameter in a query, which it cannot end. What has no
// meaning there stays readable.
func EscapeValue(text string) string { return escape(text, inValue) }

// EscapeURI returns a URI or a part of one with what no URI may contain percent-encoded (RFC 3986
// section 2): spaces, control characters, raw bytes above 0x7f, and some marks. The backslash is
// one of these, which browsers take for a slash. Percent signs stay.
func EscapeURI(uri string) string { return escape(uri, inURI) }

func inURI(uri string, i int) bool {
	c := uri[i]
	return c > ' ' && c < 0x7f && strings.IndexByte("\"<>\\^`{|}", c) < 0
}

func escape(text string, allowed func(text string, i int) bool) string {
	n := 0
	for i := range len(text) {
		if !allowed(text, i) {
			n++
		}
	}
	if n == 0 {
		return text
	}
	b := make([]byte, 0, len(text)+2*n)
	for i := range len(text) {
		if allowed(text, i) {
			b = append(b, text[i])
		} else {
			b = AppendPercent(b, text[i])
		}
	}
	return string(b)
}

// AppendPercent appends the percent-encoding of c (RFC 3986 section 2.1).
func AppendPercent(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// inQuery reports whether the byte at i may stand where it does: one of pchar, "/" and "?".
func inQuery(query string, i int) bool {
	switch c := query[i]; c {
	case '%':
		return i+2 < len(query) && class[query[i+1]]&class[query[i+2]]&isHex != 0
	case ':', '@', '/', '?':
		return true
	default:
		return class[c]&isHost != 0
	}
}

// inValue is inQuery for the value of a parameter. "&", ";", "+" and "=" mean something there.
func inValue(text string, i int) bool {
	switch c := text[i]; {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	default:
		return strings.IndexByte("-._~/:@,", c) >= 0
	}
}

// AppendUnescaped appends b with the plus signs and the percent-encoding of a form decoded, as far
// as that is valid.
func AppendUnescaped(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(b) && class[b[i+1]]&isHex != 0 && class[b[i+2]]&isHex != 0 {
			c = unhex(b[i+1])<<4 | unhex(b[i+2])
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}
