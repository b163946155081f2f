package http1

// EachElement calls f with the elements of a comma-separated list, without white space around them, until f returns false. Empty
// elements are skipped, as RFC 9110 section 5.6.1.2 demands. Commas inside quoted strings separate as well: it is for lists of tokens.
func EachElement[T string | []byte](list T, f func(T) bool) {
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if e := trim(list[:i]); len(e) > 0 && !f(e) {
			return
		}
		list = list[min(i+1, len(list)):]
	}
}

// trim returns s without the optional white space (RFC 9110 section 5.6.3) at its ends.
func trim[T string | []byte](s T) T {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// HasToken reports whether token is an element of a comma-separated list of tokens, in any case of letters: Connection, Upgrade,
// Vary. An element with parameters is no token and is passed over.
func HasToken[T string | []byte](list T, token string) (found bool) {
	EachElement(list, func(e T) bool {
		if len(e) != len(token) {
			return true
		}
		for i := 0; i < len(e); i++ {
			if lower(e[i]) != lower(token[i]) {
				return true
			}
		}
		found = true
		return false
	})
	return found
}
