package cgi

// A Field is a header field, or a parameter, with its name.
type Field struct{ Name, Value string }

// lower is c in small letters, other bytes as they are. Letters are those of ASCII, everywhere in this package: by
// Unicode's rules other characters have been taken for those of ".php".
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// is reports whether name is want, which is in small letters, in any case of letters.
func is(name, want string) bool { return len(name) == len(want) && hasPrefix(name, want) }

// hasPrefix reports whether name begins with want, which is in small letters, in any case of letters.
func hasPrefix(name, want string) bool {
	if len(name) < len(want) {
		return false
	}
	for i := 0; i < len(want); i++ {
		if lower(name[i]) != want[i] {
			return false
		}
	}
	return true
}

// equalFold reports whether two names are the same in any case of letters.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// eachToken calls f with the elements of a comma-separated list, without white space around them; empty ones are
// skipped (RFC 9110 section 5.6.1.2).
func eachToken(list string, f func(string)) {
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if e := trim(list[:i]); e != "" {
			f(e)
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
