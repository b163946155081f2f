package handlers

import "github.com/lwango/lwango/conn"

// Dependence is what the answers of a handler depend on beyond what HTTP says of it, which is the
// URL of a request, and the fields that an answer names in Vary. A cache in front of the handler
// has to know it: without it, one client would decide what all others get.
type Dependence struct {
	// AppendKey appends what it is for a request, without line ends: requests for one URL with the
	// same bytes get the same answer. It is called for each request, hits as well, on the request's
	// thread, and does not wait. nil: nothing.
	AppendKey func(dst []byte, req *conn.Request) []byte

	// Words name the parts of that for people, such as "the entry of split".
	Words []string

	// Clients says that clients with different addresses have no answer in common.
	Clients bool

	// Cookie is the name of a cookie that the handler itself sets, beside what the application says,
	// such as that of sticky: it is for the client that gets it, and others have the same answer
	// without. "": there is none.
	Cookie string

	// Sets says what the handler makes of a field of the request with that name, in small letters,
	// before it passes the request on. nil: nothing, of any name.
	Sets func(name string) FieldSource
}

// FieldSource says where a field has its value from that an application gets.
type FieldSource uint8

const (
	// FromClient: it is passed on as the client has sent it, or never.
	FromClient FieldSource = iota
	// FromRoute: it is the same for all requests of the route.
	FromRoute
	// FromURL: it is the same for all requests for one URL.
	FromURL
	// FromServer: it may be another one for each request.
	FromServer
)

// Depends tells a cache in front of the handler what its answers depend on. It is for the build
// function, which calls it once.
func (e Env) Depends(on Dependence) {
	if e.Process != nil {
		e.Process.Depends(on)
	}
}
