// Package ascii compares and cuts the text of protocols: names of header fields, hosts, endings of
// file names, lists of tokens. Letters are those of ASCII. By Unicode's rules other characters have
// been taken for letters of "k" and "s", the Kelvin sign for one, and so for another name than the
// next program reads. All functions are pure, and only ToLower allocates.
//
//	fold.go  letters in any case
//	list.go  optional white space, comma-separated lists
package ascii

// Lower returns c as a small letter if it is a letter, and any other byte unchanged.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// ToLower returns s with small letters in the place of capital ones: s itself if it has none.
func ToLower(s string) string {
	for i := range len(s) {
		if Lower(s[i]) != s[i] {
			b := []byte(s)
			for i, c := range b {
				b[i] = Lower(c)
			}
			return string(b)
		}
	}
	return s
}

// EqualFold reports whether a and b are equal when the case of letters is ignored. Most of those
// that are equal are so to the letter.
func EqualFold[A, B string | []byte](a A, b B) bool {
	return len(a) == len(b) && (string(a) == string(b) || HasPrefixFold(a, b))
}

// HasPrefixFold reports whether s begins with prefix when the case of letters is ignored.
func HasPrefixFold[S, P string | []byte](s S, prefix P) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		if c, d := s[i], prefix[i]; c != d && Lower(c) != Lower(d) {
			return false
		}
	}
	return true
}
