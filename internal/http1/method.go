package http1

// A Method is one of the request methods this package knows (RFC 9110 section 9.3, and PATCH of RFC 5789). The zero value is none of them.
type Method uint8

// The known methods. Names are case-sensitive (RFC 9110 section 9.1): "get" is an unknown method, not GET.
const (
	GET Method = iota + 1
	HEAD
	POST
	PUT
	DELETE
	OPTIONS
	PATCH
	CONNECT
	TRACE
)

var methodNames = [...]string{
	GET: "GET", HEAD: "HEAD", POST: "POST", PUT: "PUT", DELETE: "DELETE", OPTIONS: "OPTIONS", PATCH: "PATCH", CONNECT: "CONNECT", TRACE: "TRACE",
}

// String is the method's name on the wire, "" for the zero value and anything unknown.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return ""
}

// Safe reports whether the method asks for no change on the server (RFC 9110 section 9.2.1).
func (m Method) Safe() bool { return m == GET || m == HEAD || m == OPTIONS || m == TRACE }

// parseMethod returns the method of that name, 0 for any other token.
func parseMethod(name []byte) Method {
	// Comparing a converted []byte with a constant does not allocate.
	switch string(name) {
	case "GET":
		return GET
	case "HEAD":
		return HEAD
	case "POST":
		return POST
	case "PUT":
		return PUT
	case "DELETE":
		return DELETE
	case "OPTIONS":
		return OPTIONS
	case "PATCH":
		return PATCH
	case "CONNECT":
		return CONNECT
	case "TRACE":
		return TRACE
	}
	return 0
}
