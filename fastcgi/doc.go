// Package fastcgi is the module `fastcgi`: requests are passed on to PHP-FPM, or another FastCGI application, on the
// thread of the request and nothing beside it.
//
//	module.go    settings, start
//	tree.go      the folder with the scripts, and what symbolic links mean there
//	serve.go     the way of one request: what its path means, its body, its upstream, what is left to say on failure
//	params.go    what the upstream is told
//	exchange.go  one connection: sending and receiving at once
//	flow.go      the answer's way to a client that may be slower than the application
//	spool.go     what a slow client has no room for yet
//	answer.go    what comes back, on its way to the client
//	static.go    files that are sent instead
//	stderr.go    what the application logs
//	buffers.go   memory that is held while bytes move, and not while they are waited for
//
// Below internal are the parts without I/O, wire and cgi. Package internal/upstream has the choice of an
// address, and the connections.
package fastcgi
