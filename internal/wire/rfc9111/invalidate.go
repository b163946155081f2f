package rfc9111

import (
	"net/url"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Unsafe reports whether a method may change what answers to GET are (RFC 9110 section 9.2.1). An
// unknown one may.
func Unsafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return false
	}
	return true
}

// Invalidates reports whether an answer to a request makes what is kept for the request's target
// invalid (RFC 9111 section 4.4): an unsafe method has succeeded, or was redirected.
func Invalidates(method string, status int) bool {
	return status >= 200 && status < 400 && Unsafe(method)
}

// Target returns the origin-form (path and query) of a Location or Content-Location of such an
// answer, which may be relative to the origin-form of the request. ok is false if it is invalid, or
// of another origin than scheme and authority, whose answers it must not touch (section 4.4).
func Target(scheme, authority, target, location string) (origin string, ok bool) {
	base, err := url.ParseRequestURI(target)
	if err != nil || target[0] != '/' {
		return "", false
	}
	base.Scheme, base.Host = scheme, authority
	to, err := base.Parse(location)
	if err != nil || to.Opaque != "" || !ascii.EqualFold(to.Scheme, scheme) ||
		!sameAuthority(to.Host, authority, scheme) {
		return "", false
	}
	origin = to.EscapedPath()
	if origin == "" {
		origin = "/"
	}
	if to.RawQuery != "" {
		origin += "?" + to.RawQuery
	}
	return origin, origin[0] == '/'
}

// sameAuthority compares without the case of letters and the scheme's own port (RFC 9110 section
// 4.2.3).
func sameAuthority(a, b, scheme string) bool {
	aHost, aPort := http1.SplitPort(a)
	bHost, bPort := http1.SplitPort(b)
	return ascii.EqualFold(aHost, bHost) && port(aPort, scheme) == port(bPort, scheme)
}

func port(p, scheme string) string {
	switch {
	case p != "":
		return strings.TrimLeft(p, "0")
	case ascii.EqualFold(scheme, "https"):
		return "443"
	}
	return "80"
}
