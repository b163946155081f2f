package wire

import "strconv"

// An Error is a refusal. It has the status for a client whose response has not begun (one that has
// can only be cut) and, for the log, what was wrong. Each one is a package variable, so a refusal
// costs no allocation, and errors can be compared.
type Error struct {
	Status int
	Reason string
}

// Error returns status and reason, for logs.
func (e *Error) Error() string { return strconv.Itoa(e.Status) + ": " + e.Reason }

// ClientStatus returns the status.
func (e *Error) ClientStatus() int { return e.Status }

// Faults of what the application sends. After each of them it is unknown where the next record
// begins, or what it belongs to, so the connection has to be closed.
var (
	ErrVersion = &Error{502, "record of a version other than 1"}
	ErrID      = &Error{502, "record with the id of another request"}
	ErrType    = &Error{502, "record of a type that only a web server sends"}
	ErrEnd     = &Error{502, "END_REQUEST does not have eight bytes"}
)

// What an END_REQUEST other than REQUEST_COMPLETE says.
var (
	ErrCantMultiplex  = &Error{502, "application cannot multiplex connections"}
	ErrOverloaded     = &Error{503, "application is overloaded"}
	ErrUnknownRole    = &Error{502, "application does not know the role"}
	ErrProtocolStatus = &Error{502, "unknown protocolStatus"}
)

// Pairs that cannot be sent.
var (
	ErrPairSize = &Error{431, "name and value do not fit in one record"}
	ErrPairName = &Error{500, "parameter without a name"}
	ErrPairNUL  = &Error{400, "NUL in a parameter"}
)
