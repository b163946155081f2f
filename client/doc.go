// Package client is HTTP/1.1 (RFC 9110, RFC 9112) from the client's side, on the connections of a
// loop. An Exchange is one request and its answer. Both move at once: the answer may begin before
// the request has been sent, and neither side has to read all before it writes.
//
// The caller makes the connection, perhaps one that has served other requests, writes the request's
// head and frames its body. The Exchange sends what there is room for, and finds heads, body and end
// in what comes back. Only Await waits. So a proxy can pass on both directions on one thread, and a
// handler can read an answer while it does other things.
//
//	exchange.go  Exchange
//	body.go      the framing of a request's body
package client
