// Package proxy is the module `proxy`: a reverse proxy on the thread of the request, with upstreams of
// HTTP/1.1 and HTTP/2.
//
//	[[site.route]]
//	prefix = "/"
//	module = "proxy"
//	address = "127.0.0.1:3000"
//
// Package internal/upstream/httpclient speaks HTTP, internal/upstream chooses an address and has
// the connections, and internal/modules/relay has what this module shares with fastcgi: the body,
// attempts, failures, and what a slow client has no room for.
//
//	module.go       settings, start
//	health.go       requests of the server's own
//	request.go      the head that an upstream gets
//	target.go       the target in that head
//	destination.go  the field Destination of a WebDAV request
//	back.go         addresses and cookies of an answer, mapped to what the client knows
//	pairs.go        the tables of the keys map_...
//	fields.go       request_headers, in that head
//	forwarded.go    the fields that tell an upstream of the client: Forwarded, X-Forwarded-For
//	depend.go       what a cache in front has to know of both
//	serve.go        the way of one request
//	retry.go        which failures have another upstream asked
//	exchange.go     one connection: sending and receiving at once
//	answer.go       the answer, on its way to the client
//	tunnel.go       what follows an upgrade
//	frames.go       where a WebSocket can be closed
package proxy
