package wire

import "github.com/lwango/lwango/internal/wire/cgi"

// Faults of what the application sends. After each of them it is unknown where the next record
// begins, or what it belongs to, so the connection has to be closed.
var (
	ErrVersion = bad(502, "record of a version other than 1")
	ErrID      = bad(502, "record with the id of another request")
	ErrType    = bad(502, "record of a type that only a web server sends")
	ErrEnd     = bad(502, "END_REQUEST does not have eight bytes")
)

// What an END_REQUEST other than REQUEST_COMPLETE says.
var (
	ErrCantMultiplex  = bad(502, "application cannot multiplex connections")
	ErrOverloaded     = bad(503, "application is overloaded")
	ErrUnknownRole    = bad(502, "application does not know the role")
	ErrProtocolStatus = bad(502, "unknown protocolStatus")
)

func bad(status int, reason string) *cgi.Error { return &cgi.Error{Status: status, Reason: reason} }
