package http1

import "strconv"

// An Error is a refusal: the status the client gets and, for the log, the rule that was broken.
// Status is in 400-599. Each is a package variable, so a refusal allocates nothing and errors can
// be compared. After any of them the position of the next message in the stream is unknown: the
// caller must close the connection after the answer (RFC 9112 section 9.6).
type Error struct {
	Status int
	Reason string
}

// Error gives status and reason, for logs; it shows the client nothing, as the client gets the
// status alone.
func (e *Error) Error() string { return strconv.Itoa(e.Status) + ": " + e.Reason }

// Refusals of a request line.
var (
	// RFC 9112 section 2.2
	ErrEmptyLines = &Error{400, "too many empty lines before the request"}
	// RFC 9112 section 3.1
	ErrMethodSyntax = &Error{400, "the method is not a token followed by one space"}
	// RFC 9112 section 3, RFC 9113 section 3.4
	ErrMethod = &Error{501, "the method is PRI, or longer than any that is implemented"}
	// RFC 9112 section 2.3
	ErrVersion = &Error{400, "the request line does not end in a space and HTTP/digit.digit"}
	// RFC 9110 section 15.6.6
	ErrVersionMajor = &Error{505, "HTTP major version other than 1"}
	// RFC 9112 section 3.2
	ErrTarget = &Error{400, "malformed request target"}
	// RFC 9112 sections 3.2.3, 3.2.4
	ErrTargetForm = &Error{400, "form of the request target does not go with the method"}
	// RFC 9112 section 3.2.2
	ErrScheme = &Error{400, "absolute request target is neither http nor https"}
	// RFC 9110 sections 4.2.1, 4.2.4
	ErrAuthority = &Error{400, "invalid authority in the request target"}
)

// Refusals of lines in general, of field lines and of what they say.
var (
	// RFC 9112 section 2.2
	ErrBareLF = &Error{400, "line ends in LF without CR"}
	// RFC 9112 section 2.2
	ErrBareCR = &Error{400, "CR without LF"}
	// RFC 9112 sections 2.2, 5.2
	ErrFold = &Error{400, "line begins with white space"}
	// RFC 9112 section 5.1
	ErrFieldName = &Error{400, "field line does not begin with a name and a colon"}
	// RFC 9110 section 5.5
	ErrFieldValue = &Error{400, "control character in a field value"}
	// RFC 6585 section 5
	ErrFieldCount = &Error{431, "too many field lines"}
	// RFC 6585 section 5
	ErrHeadSize = &Error{431, "head too large to address"}
	// RFC 9112 section 3.2
	ErrHostMissing = &Error{400, "HTTP/1.1 without a Host field"}
	// RFC 9112 section 3.2
	ErrHostRepeated = &Error{400, "more than one Host field"}
	// RFC 9112 section 3.2
	ErrHost = &Error{400, "Host is not a valid host[:port]"}
	// RFC 9110 section 10.1.1
	ErrExpectation = &Error{417, "expectation other than 100-continue"}
	// RFC 9112 section 6.3 (5)
	ErrLength = &Error{400, "Content-Length is not a number below 2^63"}
	// RFC 9112 section 6.3 (5)
	ErrLengthTwice = &Error{400, "more than one Content-Length field"}
	// RFC 9112 section 6.3 (4)
	ErrCoding = &Error{400, "transfer coding other than chunked, once and alone"}
	// RFC 9112 section 6.1
	ErrCodingUnknown = &Error{501, "transfer codings before chunked"}
	// RFC 9112 section 6.1
	ErrCodingOn10 = &Error{400, "Transfer-Encoding in HTTP/1.0"}
	// RFC 9112 section 6.3 (3)
	ErrCodingLength = &Error{400, "Transfer-Encoding and Content-Length in one message"}
)

// Refusals of the head of a response.
var (
	// RFC 9112 section 4
	ErrStatusLine = &Error{502, "the first line is not HTTP/1.digit, a status and a reason"}
	// RFC 9110 section 8.6, RFC 9112 section 6.1
	ErrInterimBody = &Error{502, "interim response with a body"}
)

// Refusals of a path, by CleanPath.
var (
	// RFC 3986 section 2.1
	ErrPath = &Error{400, "malformed percent-encoding or control character in a path"}
	// RFC 3986 section 5.2.4
	ErrPathAbove = &Error{400, "path leads above the root"}
)

// Refusals of a chunked body; besides these, those of lines and of field lines.
var (
	// RFC 9112 section 7.1
	ErrChunkSize = &Error{400, "malformed chunk size or chunk size of 2^63 and above"}
	// RFC 9112 section 7.1.1
	ErrChunkExt = &Error{400, "malformed chunk extension"}
	// RFC 9112 section 7.1
	ErrChunkData = &Error{400, "chunk data is not followed by CRLF"}
	// RFC 9112 section 7.1.1
	ErrChunkExcess = &Error{400, "chunk sizes and extensions outweigh the data"}
	// RFC 6585 section 5
	ErrTrailerSize = &Error{431, "trailer section too large"}
)
