// Package wire writes and reads the records of FastCGI 1.0, from the web server's side: pure
// functions and small state machines on []byte. It does no I/O, starts nothing and, on good input,
// allocates only what the caller's buffers have to grow. One goroutine at a time may use a value of
// its types.
//
// One connection carries one request at a time, with id 1. PHP-FPM takes two interleaved requests
// for one and reports no error, so this package cannot multiplex. It holds the application to the
// protocol where leniency would mix foreign bytes into a page (another id, another version), and
// passes over what the protocol says to pass over (management records, types of later versions).
//
//	errors.go   errors of the parsers
//	record.go   Type, Header: the eight bytes before each record
//	request.go  BEGIN_REQUEST, PARAMS, the end of STDIN: Head and the appenders
//	end.go      END_REQUEST and its protocolStatus
//	decoder.go  Decoder: what the application sends, piece by piece
package wire
