package websocket

import "unicode/utf8"

// runes checks text that comes in parts (RFC 6455 section 8.1). The zero value is for its
// beginning.
type runes struct {
	cut [utf8.UTFMax]byte // the beginning of a rune
	n   int
}

// add reports whether the text can still become UTF-8 with p as its next part.
func (u *runes) add(p []byte) bool {
	for u.n > 0 && len(p) > 0 {
		u.cut[u.n] = p[0]
		u.n, p = u.n+1, p[1:]
		if utf8.FullRune(u.cut[:u.n]) { // also if it is invalid already
			if !utf8.Valid(u.cut[:u.n]) {
				return false
			}
			u.n = 0
		}
	}
	n, ok := validUTF8(p)
	if u.n == 0 {
		u.n = copy(u.cut[:], p[n:])
	}
	return ok
}

// whole reports whether the text may end here.
func (u *runes) whole() bool { return u.n == 0 }

// validUTF8 returns how long p is without a rune that is cut off at its end, and whether that is
// UTF-8.
func validUTF8(p []byte) (n int, ok bool) {
	if utf8.Valid(p) {
		return len(p), true
	}
	n = len(p) - 1
	for n > 0 && n > len(p)-utf8.UTFMax && !utf8.RuneStart(p[n]) {
		n--
	}
	return n, !utf8.FullRune(p[n:]) && utf8.Valid(p[:n])
}
