package http1

import (
	"bytes"
	"encoding/base64"

	"github.com/lwango/lwango/internal/base/ascii"
)

// BasicCredentials decodes the value of an Authorization field of the Basic scheme (RFC 7617) into
// dst, which must have room for what field decodes to. name and password are views of dst, with the
// colon between them. A name has no colon, a password may have some.
func BasicCredentials(dst, field []byte) (name, password []byte, ok bool) {
	const scheme = "Basic"
	n := len(scheme)
	if len(field) <= n || !ascii.EqualFold(string(field[:n]), scheme) || field[n] != ' ' {
		return nil, nil, false
	}
	coded := bytes.TrimLeft(field[n:], " ")
	if base64.StdEncoding.DecodedLen(len(coded)) > len(dst) {
		return nil, nil, false
	}
	k, err := base64.StdEncoding.Decode(dst, coded)
	if err != nil {
		return nil, nil, false
	}
	if name, password, ok = bytes.Cut(dst[:k], []byte(":")); !ok {
		return nil, nil, false
	}
	return name, password, true
}
