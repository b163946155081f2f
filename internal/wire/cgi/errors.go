package cgi

import "strconv"

// An Error is a refusal. It has the status for a client whose response has not begun (otherwise the
// response can only be cut) and the reason for the log. Each one is a package variable, so a
// refusal costs no allocation, and errors can be compared.
type Error struct {
	Status int
	Reason string
}

// Error returns status and reason, for logs.
func (e *Error) Error() string { return strconv.Itoa(e.Status) + ": " + e.Reason }

// ClientStatus returns the status.
func (e *Error) ClientStatus() int { return e.Status }

// Variables that cannot be sent.
var (
	ErrPairSize = &Error{431, "name and value do not fit in one record"}
	ErrVarsSize = &Error{431, "variables do not fit in a packet"}
	ErrPairName = &Error{500, "parameter without a name"}
	ErrPairNUL  = &Error{400, "NUL in a parameter"}
)

// Refusals of a request's parameters.
var (
	// ErrLength: a length has to be known, as PHP-FPM waits for as many bytes as CONTENT_LENGTH
	// announces, whatever the protocol says, and sees no body without it. RFC 9110 section 15.5.12.
	ErrLength = &Error{Status: 411, Reason: "length of the body is not known"}
	// ErrOptions: every option is compared with every field, so their number needs a bound.
	ErrOptions = &Error{Status: 400, Reason: "too many connection options"}
)

// Refusals of a response's header. Then the rest of the response cannot be used.
var (
	ErrHeaderSize = bad("response header exceeds the limit")
	ErrFieldCount = bad("too many fields in the response header")
	ErrIncomplete = bad("response ended within its header")

	// RFC 3875 section 6.3 and, for what is sent on, RFC 9110 section 5.5.
	ErrNPH   = bad("response begins with a status line of HTTP") // section 5 is not for FastCGI
	ErrFold  = bad("line of the response header begins with white space")
	ErrName  = bad("line of the response header is not a name, colon and value")
	ErrValue = bad("control character in the response header")

	// RFC 3875 section 6.3.3; by section 6.3 there is one of each CGI field.
	ErrStatus      = bad("Status is not a number from 200 to 999 and a reason")
	ErrStatusLine  = bad("the status line has no version and number")
	ErrStatusTwice = bad("two different statuses")

	// RFC 9112 section 6.3 (5) and (3).
	ErrLengthTwice = bad("two different Content-Length fields")
	ErrFraming     = bad("Content-Length and Transfer-Encoding in one response")
)

func bad(reason string) *Error { return &Error{Status: 502, Reason: reason} }
