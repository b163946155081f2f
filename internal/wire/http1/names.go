package http1

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

var (
	hopByHop = [...]string{"Connection", "Keep-Alive", "TE", "Upgrade", "Proxy-Connection",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info"}
	framing = [...]string{"Content-Length", "Transfer-Encoding"}
	owned   = [...]string{"Via", "Host", "Expect", "Trailer"}

	hopByHopSet = NamesOf(hopByHop[:]...)
	framingSet  = NamesOf(framing[:]...)
	ownedSet    = NamesOf(owned[:]...)

	// Steering has the names that HopByHop, Framing and Owned report.
	Steering = hopByHopSet | framingSet | ownedSet
)

// HopByHop reports the fields that are about one connection and are not passed on (RFC 9110 section
// 7.6.1), besides those that a Connection field names. The Proxy- fields are between a client and a
// proxy of its choice (sections 11.7.1 to 11.7.3).
func HopByHop(name string) bool { return MayHave(hopByHopSet, name) && oneOf(name, hopByHop[:]) }

// Framing reports the fields about the length of a message, which each sender sets anew.
func Framing(name string) bool { return MayHave(framingSet, name) && oneOf(name, framing[:]) }

// Owned reports the other fields that the server alone can set, since they are about its own
// request: the host, whether the body waits for 100 (Continue), which fields follow the body, and
// that the request came through this server, which ends loops. The server reads the client's
// fields, and sends most of them on in its own form.
func Owned(name string) bool { return MayHave(ownedSet, name) && oneOf(name, owned[:]) }

func oneOf(name string, names []string) bool {
	for _, n := range names {
		if ascii.EqualFold(name, n) {
			return true
		}
	}
	return false
}

// ForwardingFields are the fields by which the server may describe the client to an upstream.
var ForwardingFields = [...]string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
	"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Real-IP", "Forwarded"}

// IsForwarding reports whether a field is one of ForwardingFields, or the same variable to CGI.
func IsForwarding(name string) bool {
	for _, s := range &ForwardingFields {
		if SameVariable(name, s) {
			return true
		}
	}
	return false
}

// SameVariable reports whether two names of fields are the same variable to CGI, for which "-" and
// "_" are equal (RFC 3875 section 4.1.18).
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
	i := strings.LastIndexByte(authority, ':')
	if i >= 0 && strings.IndexByte(authority[i:], ']') < 0 { // else it is in an address
		return authority[:i], authority[i+1:]
	}
	return authority, ""
}
