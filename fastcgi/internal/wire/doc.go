// Package wire writes and reads the records of FastCGI 1.0, from the web server's side: pure functions and small
// state machines on []byte. It does no I/O, starts nothing and, on good input, allocates nothing but what its
// caller's buffers have to grow. Values of its types belong to whoever declares them, one goroutine at a time.
//
// One connection carries one request at a time, with id 1. PHP-FPM takes two interleaved requests for one and says
// nothing about it, so there is no multiplexing here to be used by mistake. What comes from the application is held
// to the protocol where leniency would mix something else into a page (a foreign id, another version), and is
// passed over where the protocol says so (management records, types of later versions).
//
//	errors.go    Error: status and reason of every refusal
//	record.go    Type, Header: the eight bytes before each record
//	pairs.go     name-value pairs
//	request.go   BEGIN_REQUEST, PARAMS, the end of STDIN: Head and the appenders
//	end.go       END_REQUEST and its protocolStatus
//	decoder.go   Decoder: what the application sends, piece by piece
package wire
