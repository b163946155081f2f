package http1

import "encoding/binary"

// Character classes, one bit each, so that one table of 256 bytes (four cache lines) serves every
// scan.
const (
	isTchar  = 1 << iota // token: RFC 9110 section 5.6.2
	isField              // in a field value: VCHAR, obs-text, SP, HTAB (RFC 9110 section 5.5)
	isTarget             // in a request target, see validTarget
	isHost               // in a reg-name, but for '%': RFC 3986 section 3.2.2
	isETag               // in an opaque-tag: RFC 9110 section 8.8.3
	isDigit
	isHex
	isPlain // in a path: needs no work by CleanPath, whatever stands beside it
)

var class = func() (t [256]uint8) {
	for c := range t {
		ctl := c < 0x20 || c == 0x7f
		if !ctl || c == '\t' {
			t[c] |= isField
		}
		if !ctl && c != ' ' && c != '#' {
			t[c] |= isTarget
		}
		if !ctl && c != ' ' && c != '"' {
			t[c] |= isETag
		}
		if !ctl && c != '/' && c != '%' {
			t[c] |= isPlain
		}
		if '0' <= c && c <= '9' {
			t[c] |= isTchar | isHost | isDigit | isHex
		}
		if l := c | 0x20; 'a' <= l && l <= 'z' && c < 0x80 {
			t[c] |= isTchar | isHost
			if l <= 'f' {
				t[c] |= isHex
			}
		}
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= isTchar
	}
	for _, c := range "-._~!$&'()*+,;=" { // unreserved and sub-delims
		t[c] |= isHost
	}
	return t
}()

// unhex is the value of a hexadecimal digit; the caller has checked that it is one.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// below sets a bit of highs if a byte of x is less than n (n <= 0x80). Only zero and non-zero have
// a meaning: a borrow may also set the bit of the byte above a true one.
func below(x uint64, n byte) uint64 { return (x - ones*uint64(n)) &^ x & highs }

// equal sets a bit of highs if a byte of x is c, with the same caveat.
func equal(x uint64, c byte) uint64 {
	x ^= ones * uint64(c)
	return (x - ones) &^ x & highs
}

// validValue reports whether every byte may stand in a field value. RFC 9110 section 5.5 demands
// that CR, LF and NUL are refused (or replaced) and leaves the other controls to us. They are
// refused as well: no client needs them, and log files and FastCGI applications do not expect them.
// Bytes above 0x7f are obs-text, opaque to us, and pass.
func validValue(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		// An HTAB is below 0x20 and allowed.
		if below(x, 0x20)|equal(x, 0x7f) != 0 && !all(b[:8], isField) {
			return false
		}
		b = b[8:]
	}
	return all(b, isField)
}

// validTarget reports whether every byte may stand in a request target: neither white space nor
// controls, which could end the target early for another parser (RFC 9112 section 3), nor '#', as a
// fragment is never sent (section 3.2). Bytes above 0x7f and characters like '|' or '"' are no URI
// characters either (RFC 3986 section 2), but curl and browsers send them raw and they separate
// nothing: refusing them would break links and stop no attack.
func validTarget(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		if below(x, 0x21)|equal(x, 0x7f)|equal(x, '#') != 0 {
			return false
		}
		b = b[8:]
	}
	return all(b, isTarget)
}

// all reports whether every byte is of the class.
func all[T string | []byte](s T, c uint8) bool {
	for i := 0; i < len(s); i++ {
		if class[s[i]]&c == 0 {
			return false
		}
	}
	return true
}

// token is the longest token that s begins with, perhaps empty.
func token(s []byte) []byte {
	i := 0
	for i < len(s) && class[s[i]]&isTchar != 0 {
		i++
	}
	return s[:i]
}

// ValidToken reports whether s is a token (RFC 9110 section 5.6.2), as field names and methods are.
// The empty string is none.
func ValidToken[T string | []byte](s T) bool { return len(s) > 0 && all(s, isTchar) }

// ValidFieldValue reports whether s can be sent as a field value without ending its line or
// upsetting a recipient: no CR, LF, NUL or other control but HTAB (RFC 9110 section 5.5). The empty
// value is valid; bytes above 0x7f are.
func ValidFieldValue[T string | []byte](s T) bool { return all(s, isField) }
