// Package http1 parses and writes the wire forms of HTTP/1.0 and 1.1: pure functions and small
// state machines on []byte. It does no I/O, starts nothing, keeps no global state and, on good
// input, allocates nothing. One goroutine at a time may use a value of its types; any goroutine may
// call its functions.
//
// It is strict where leniency has been an attack: it refuses what two parsers in a row could read
// in two ways (a bare LF, a space before the colon, a second Content-Length), and each refusal
// names its section of RFC 9110 or RFC 9112. It accepts what real clients send and no attack has
// used (an empty line before a request, raw UTF-8 in a target).
//
//	errors.go       Error: status and reason of every refusal
//	chars.go        character classes: tables, word-at-a-time scans, ValidToken, ValidFieldValue
//	span.go         Span and Field: positions in the caller's buffer
//	method.go       Method
//	message.go      what the heads of requests and responses have in common
//	head.go         Head: the resumable parser of a request head, line by line
//	compose.go      a Head that comes in parts, as that of HTTP/2
//	target.go       request line and the four forms of a request target
//	names.go        hop-by-hop fields, field lines as they are written
//	nameset.go      NameSet: a set of field names
//	forwarded.go    fields by which proxies tell of the client
//	field.go        field lines, and those that frame a message or steer the connection
//	response.go     ResponseHead and ResponseBody, for a client
//	authority.go    uri-host and port
//	basic.go        Basic credentials (RFC 7617)
//	credentials.go  credentials that are for a connection: NTLM, Negotiate
//	path.go         CleanPath: percent-decoding and dot segments
//	sent.go         a path as it is sent on, and the ways to read it
//	query.go        queries, and values in them, percent-encoded
//	chunked.go      Chunked: decoder of the chunked coding
//	chunkwrite.go   writing the chunked coding
//	date.go         HTTP dates, written and read
//	ranges.go       Range and Content-Range
//	conditions.go   If-Match and its kin, If-Range
//	etag.go         entity tags and their comparisons
package http1
