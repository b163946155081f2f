// Package fastcgi is the module `fastcgi`: requests are passed on to PHP-FPM, or another FastCGI application, on the
// thread of the request and nothing beside it.
//
//	module.go    settings, start
//	address.go   an upstream as the configuration writes it
//	tree.go      the folder with the scripts, and what symbolic links mean there
//	pool.go      the addresses of all routes: who has places, who waits, connections that are kept
//	group.go     the upstreams of a route: choice, places, the way into the queue
//	health.go    which addresses are passed over for a while
//	names.go     addresses of hosts that have names
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
// Below internal are the parts without I/O, wire and cgi.
package fastcgi
