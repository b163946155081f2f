package http1

import (
	"encoding/binary"
	"math/bits"
)

// Character classes, one bit each, so that one table of 256 bytes (four cache lines) serves every
// scan.
const (
	isTchar  = 1 << iota // token: RFC 9110 section 5.6.2
	isField              // in a field value: VCHAR, obs-text, SP, HTAB (RFC 9110 section 5.5)
	isTarget             // in a request target, see targetLen
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

// below sets a bit of highs if a byte of x is less than n (n <= 0x80). Only the lowest bit has a
// meaning: a borrow may also set the bit of the byte above a true one.
func below(x uint64, n byte) uint64 { return (x - ones*uint64(n)) &^ x & highs }

// equal sets a bit of highs if a byte of x is c, with the same caveat.
func equal(x uint64, c byte) uint64 {
	x ^= ones * uint64(c)
	return (x - ones) &^ x & highs
}

// lowest returns the index of the lowest byte whose bit of highs is set in x.
func lowest(x uint64) int { return bits.TrailingZeros64(x) / 8 }

// valueLen returns how many bytes at the beginning of b may stand in a field value. RFC 9110
// section 5.5 demands that CR, LF and NUL are refused (or replaced) and leaves the other controls
// to us. They are refused as well: no client needs them, and log files and FastCGI applications do
// not expect them. Bytes above 0x7f are obs-text, opaque to us, and pass.
func valueLen(b []byte) int {
	rest := b
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		odd := below(x, 0x20) | equal(x, 0x7f)
		if odd == 0 {
			rest = rest[8:]
			continue
		}
		i := lowest(odd)
		if rest[i] != '\t' { // which is below 0x20 and allowed
			return len(b) - len(rest) + i
		}
		rest = rest[i+1:]
	}
	return len(b) - len(rest) + run(rest, isField)
}

// targetLen returns how many bytes at the beginning of b may stand in a request target: neither
// white space nor controls, which could end the target early for another parser (RFC 9112 section
// 3), nor '#', as a fragment is never sent (section 3.2). Bytes above 0x7f and characters like '|'
// or '"' are no URI characters either (RFC 3986 section 2), but curl and browsers send them raw and
// they separate nothing: refusing them would break links and stop no attack.
func targetLen(b []byte) int {
	rest := b
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		if odd := below(x, 0x21) | equal(x, 0x7f) | equal(x, '#'); odd != 0 {
			return len(b) - len(rest) + lowest(odd)
		}
		rest = rest[8:]
	}
	return len(b) - len(rest) + run(rest, isTarget)
}

// tokenLen returns the length of the longest token that s begins with, perhaps 0.
func tokenLen(s []byte) int { return run(s, isTchar) }

// run returns how many bytes at the beginning of b are of the class. It is not inlined, so that all
// who scan share its cache lines.
//
//go:noinline
func run(b []byte, c uint8) int {
	for i := range b {
		if class[b[i]]&c == 0 {
			return i
		}
	}
	return len(b)
}

// ValidToken reports whether s is a token (RFC 9110 section 5.6.2), as field names and methods are.
// The empty string is none.
func ValidToken[T string | []byte](s T) bool { return len(s) > 0 && tokenLen([]byte(s)) == len(s) }

// ValidFieldValue reports whether s can be sent as a field value without ending its line or
// upsetting a recipient: no CR, LF, NUL or other control but HTAB (RFC 9110 section 5.5). The empty
// value is valid; bytes above 0x7f are.
func ValidFieldValue[T string | []byte](s T) bool { return valueLen([]byte(s)) == len(s) }
