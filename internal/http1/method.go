package http1

// A Method is one of the request methods this package knows. The zero value is none of them.
type Method uint8

// The methods that have a meaning here, or a quick way. Names are case-sensitive (RFC 9110 section
// 9.1): "get" is an unknown method, not GET.
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
// 16.1.1), most of them WebDAV's. They are known for the sake of handlers: an application behind a
// gateway may know them. PRI is not among them, as it is there to be none (RFC 9113 section 3.4).
// QUERY is on its way into the registry.
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

// String is the method's name on the wire, "" for the zero value and anything unknown.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return ""
}

// KnownMethod reports whether a request can have a method of that name.
func KnownMethod(name string) bool { return methodsByName[name] != 0 }

// parseMethod returns the method of that name, 0 for any other token.
func parseMethod(name []byte) Method {
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
