package cgi

import "github.com/lwango/lwango/fastcgi/internal/wire"

// Refusals of a request's parameters.
var (
	// ErrLength: a length has to be known, as PHP-FPM waits for as many bytes as CONTENT_LENGTH
	// announces, whatever the protocol says, and sees no body without it. RFC 9110 section 15.5.12.
	ErrLength = &wire.Error{Status: 411, Reason: "length of the body is not known"}
	// ErrOptions: every option is compared with every field, so their number needs a bound.
	ErrOptions = &wire.Error{Status: 400, Reason: "too many connection options"}
)

// Refusals of a response's header. What follows the header cannot be used then.
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
	ErrStatusTwice = bad("two different Status fields")

	// RFC 9112 section 6.3 (5) and (3).
	ErrLengthTwice = bad("two different Content-Length fields")
	ErrFraming     = bad("Content-Length and Transfer-Encoding in one response")
)

func bad(reason string) *wire.Error { return &wire.Error{Status: 502, Reason: reason} }
