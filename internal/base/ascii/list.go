package ascii

// TrimOWS returns s without the optional white space (RFC 9110 section 5.6.3) at its ends.
func TrimOWS[T string | []byte](s T) T {
	for len(s) > 0 && isOWS(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isOWS(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isOWS(c byte) bool { return c == ' ' || c == '\t' }

// EachElement calls f with the elements of a comma-separated list, without the white space around
// them, until f returns false. It skips empty elements, as RFC 9110 section 5.6.1.2 demands. It
// also splits at commas inside quoted strings, so it is for lists of tokens.
func EachElement[T string | []byte](list T, f func(T) bool) {
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if e := TrimOWS(list[:i]); len(e) > 0 && !f(e) {
			return
		}
		list = list[min(i+1, len(list)):]
	}
}

// HasToken reports whether token is an element of a comma-separated list of tokens, such as
// Connection, Upgrade or Vary, when the case of letters is ignored. An element with parameters is
// no token and never matches.
func HasToken[T string | []byte](list T, token string) (found bool) {
	EachElement(list, func(e T) bool {
		found = EqualFold(e, token)
		return !found
	})
	return found
}
