package http1

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
)

// ForConnection reports whether the value of an Authorization or WWW-Authenticate field speaks of
// NTLM or Negotiate. These authenticate the connection and not the request, against RFC 9110
// section 11.1: a server takes each later request there for the same user's (RFC 4559 section 6).
// In a list of challenges, the scheme is at the beginning of an element.
func ForConnection[T string | []byte](value T) (found bool) {
	ascii.EachElement(value, func(e T) bool {
		scheme := []byte(e)
		if i := bytes.IndexAny(scheme, " \t"); i >= 0 {
			scheme = scheme[:i]
		}
		found = ascii.EqualFold(scheme, "NTLM") || ascii.EqualFold(scheme, "Negotiate")
		return !found
	})
	return found
}
