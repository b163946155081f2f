package rfc9111

// Unsafe reports whether a method may change what answers to GET are (RFC 9110 section 9.2.1). An
// unknown one may.
func Unsafe(method string) bool { panic("soon") }

// Invalidates reports whether an answer to a request makes what is kept for the request's target
// invalid (RFC 9111 section 4.4): an unsafe method has succeeded, or was redirected.
func Invalidates(method string, status int) bool { panic("soon") }

// Target returns the origin-form (path and query) of a Location or Content-Location of such an
// answer, which may be relative to the origin-form of the request. ok is false if it is invalid, or
// of another origin than scheme and authority, whose answers it must not touch (section 4.4).
func Target(scheme, authority, target, location string) (origin string, ok bool) { panic("soon") }
