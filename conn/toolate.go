package conn

import "github.com/lwango/lwango/internal/ascii"

// tooLate reports a field that must not be in a trailer, in any case of letters: the receiver needs
// it before the content, for the framing, for routing, as a condition or a control of the request,
// for authentication, or to understand the content (RFC 9110 section 6.5.1). A receiver that merges
// the trailer with the header would otherwise get past what was decided by the header. The list is
// that of net/http with the fields of RFC 6265, which authenticate, too.
func tooLate[T string | []byte](name T) bool {
	if len(name) > 3 && ascii.EqualFold(name[:3], "If-") {
		return true
	}
	for _, f := range [...]string{
		"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "TE", "Trailer",
		"Transfer-Encoding",

		"Cache-Control", "Expect", "Host", "Max-Forwards", "Pragma", "Range",

		"Authorization", "Cookie", "Proxy-Authenticate", "Proxy-Authorization", "Realm",
		"Set-Cookie", "WWW-Authenticate",

		"Content-Encoding", "Content-Range", "Content-Type",
	} {
		if ascii.EqualFold(name, f) {
			return true
		}
	}
	return false
}
