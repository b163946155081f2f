package http1

import (
	"strings"

	"github.com/lwango/lwango/internal/ascii"
)

// HopByHop reports the fields that are about one connection and are not passed on (RFC 9110 section
// 7.6.1), besides those that a Connection field names. The Proxy- fields are between a client and a
// proxy of its choice (sections 11.7.1 to 11.7.3).
func HopByHop(name string) bool {
	switch len(name) {
	case len("TE"):
		return ascii.EqualFold(name, "TE")
	case len("Upgrade"):
		return ascii.EqualFold(name, "Upgrade")
	case len("Connection"): // and Keep-Alive
		return ascii.EqualFold(name, "Connection") || ascii.EqualFold(name, "Keep-Alive")
	case len("Proxy-Connection"):
		return ascii.EqualFold(name, "Proxy-Connection")
	case len("Proxy-Authenticate"):
		return ascii.EqualFold(name, "Proxy-Authenticate")
	case len("Proxy-Authorization"):
		return ascii.EqualFold(name, "Proxy-Authorization")
	case len("Proxy-Authentication-Info"):
		return ascii.EqualFold(name, "Proxy-Authentication-Info")
	}
	return false
}

// Framing reports the fields that say how long a message is, which each sender does anew.
func Framing(name string) bool {
	return len(name) == len("Content-Length") && ascii.EqualFold(name, "Content-Length") ||
		len(name) == len("Transfer-Encoding") && ascii.EqualFold(name, "Transfer-Encoding")
}

// SameVariable reports whether two names of fields are the same to CGI and its kin, to which "-"
// and "_" are equal (RFC 3875 section 4.1.18).
func SameVariable[S, T string | []byte](a S, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := ascii.Lower(a[i]), ascii.Lower(b[i])
		if x != y && (x != '-' && x != '_' || y != '-' && y != '_') {
			return false
		}
	}
	return true
}

// AppendField appends a field line. The caller has checked name and value.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// SplitPort cuts the port off an authority, which the caller has checked. Without one, port is
// empty.
func SplitPort(authority string) (host, port string) {
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		return authority[:i], authority[i+1:]
	}
	return authority, ""
}
