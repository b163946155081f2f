package http1

// EscapeQuery returns a query as it may stand in a URI (RFC 3986 section 3.4): what clients send
// raw and is not allowed there is percent-encoded, and nothing else is changed. It is for what goes
// out again, in a Location for one, where a raw byte above 0x7f is taken for another character by
// one recipient than by the next.
func EscapeQuery(query string) string {
	n := 0
	for i := range len(query) {
		if !inQuery(query, i) {
			n++
		}
	}
	if n == 0 {
		return query
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(query)+2*n)
	for i := range len(query) {
		if c := query[i]; inQuery(query, i) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
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
