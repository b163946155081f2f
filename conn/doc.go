// Package conn serves HTTP/1.1 (RFC 9110, RFC 9112) on the connections of a loop. For other
// protocols there is a net.Conn on a loop in package stream.
//
// A connection is a thread of its loop. Its record, connection, is all that an idle client costs.
// The buffers, the Request and the Response are in an exchange, which stays with the coroutine and
// serves the connection that runs on it next. Parsing is package http1's; this package reads, hands
// requests to the Handler in order, frames what the handler answers, and decides when a connection
// goes on and when it ends.
//
// A Handler runs on its connection's thread. It may read the body, write, sleep and await in plain
// sequential code; it must not block in any other way, because its whole loop waits with it.
// Request and Response belong to that thread, until the Handler returns; strings taken from them
// may be kept, byte views may not. The status is what the Handler returns; if the head goes out
// before that, it has the status of Response.SetStatus.
//
//	server.go         Server, Config, accepting, limits
//	connection.go     the record, and the life of a connection from request to request
//	exchange.go       one request and its answer
//	input.go          reading: the buffer, heads, time limits
//	output.go         writing: gathered, in full, in time
//	duplex.go         Duplex: body and answer at once
//	tls.go            the same over crypto/tls
//	admit.go          which connections are let in, and which are closed for them
//	linger.go         closing so that the client can read the last answer
//	request.go        Request
//	waits.go          what its thread can wait for
//	body.go           request bodies: lengths, chunks, limits
//	spool.go          bodies in memory or in a temporary file
//	form.go           forms
//	response.go       Response, as handlers see it
//	finish.go         Response, as it goes out: head and framing
//	header.go         header fields
//	status.go         status lines and error pages
//	bridge.go         http.Handler as a Handler: HTTP, HTTPOnLoop, the http.Request
//	bridge_writer.go  its http.ResponseWriter
//	bridge_answer.go  what that makes of a Response
//	bridge_pipe.go    a handler off the loop, and the pipes between it and its thread
//	bridge_carry.go   what the thread does there
//	access.go         what the access log is told, and connections that wait for it
//	hijack.go         connections handed over to handlers
package conn
