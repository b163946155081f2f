package wire

import "strconv"

// An Error is a refusal: the status for a client whose response has not begun (afterwards there is nothing left but
// to cut it) and, for the log, what was wrong. Every one is a package variable, so refusing costs no allocation and
// errors can be compared.
type Error struct {
	Status int
	Reason string
}

// Error gives status and reason, for logs.
func (e *Error) Error() string { return strconv.Itoa(e.Status) + ": " + e.Reason }

// Faults of what the application sends. After any of them the position of the next record is unknown, or what it
// belongs to: the connection has to be closed.
var (
	ErrVersion = &Error{502, "record of a version other than 1"}
	ErrID      = &Error{502, "record with the id of another request"}
	ErrType    = &Error{502, "record of a type that only a web server sends"}
	ErrEnd     = &Error{502, "END_REQUEST is not of eight bytes"}
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
