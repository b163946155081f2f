package http1

// A Method is one of the request methods this package knows, or Other. The zero value is none.
type Method uint8

// Other is any other token, such as PURGE or M-SEARCH: what a method means is for the handler, or
// for the application behind a gateway, to say. Its name is that of Head.Name.
const Other Method = 255

// maxMethod is how long a method may be. The longest that is registered has 17 bytes; one beyond
// this length is longer than any that somebody implements (RFC 9112 section 3).
const maxMethod = 64

// The methods that have a meaning here, or a quick way. Names are case-sensitive (RFC 9110 section
// 9.1): "get" is another method than GET.
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

// methodNames has behind those the others of the IANA HTTP Method Registry (RFC 9110 section
// 16.1.1), most of them WebDAV's, so that their names cost nothing. QUERY is on its way into the
// registry.
var methodNames = [...]string{
	GET: "GET", HEAD: "HEAD", POST: "POST", PUT: "PUT", DELETE: "DELETE", OPTIONS: "OPTIONS",
	PATCH: "PATCH", CONNECT: "CONNECT", TRACE: "TRACE",

	TRACE + 1: "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY",
	"LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR",
	"MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH",
	"PROPFIND", "PROPPATCH", "QUERY", "REBIND", "REPORT", "SEARCH", "UNBIND",
	"UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
}

var methodsByName = func() map[string]Method {
	all := make(map[string]Method, len(methodNames))
	for m := GET; int(m) < len(methodNames); m++ {
		all[methodNames[m]] = m
	}
	return all
}()

// String is the method's name on the wire, "" for the zero value and Other.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return ""
}

// Idempotent reports the methods by which a request may be sent twice (RFC 9110 section 9.2.2).
func Idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		return true
	}
	return false
}

// ValidMethod reports whether a request can have a method of that name: a token. PRI is in the
// registry to be none (RFC 9113 section 3.4).
func ValidMethod(name string) bool {
	return ValidToken(name) && len(name) <= maxMethod && name != "PRI"
}

// parseMethod returns the method of a name that is a token; 0 for one that no request can have.
func parseMethod(name []byte) Method {
	if m := knownMethod(name); m != 0 || len(name) > maxMethod || string(name) == "PRI" {
		return m
	}
	return Other
}

// knownMethod returns the method of that name, 0 if it has no number of its own.
func knownMethod(name []byte) Method {
	// Neither comparing a converted []byte with a constant nor looking it up allocates.
	switch string(name) {
	case "GET":
		return GET
	case "HEAD":
		return HEAD
	case "POST":
		return POST
	}
	return methodsByName[string(name)]
}
