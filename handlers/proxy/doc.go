// Package proxy is the module `proxy`: a reverse proxy on the thread of the request, with upstreams
// of HTTP/1.1 and HTTP/2.
//
//	[[site.route]]
//	prefix = "/"
//	module = "proxy"
//	address = "127.0.0.1:3000"
//
// Package internal/upstream/httpclient speaks HTTP, internal/upstream chooses an address and has
// the connections, and internal/modules/reverseproxy has what this module shares with fastcgi: the
// body, attempts, failures, and what a slow client has no room for.
//
//	module.go       settings, start
//	health.go       health checks
//	request.go      the head that an upstream gets
//	target.go       the target in the head that an upstream gets
//	destination.go  the field Destination of a WebDAV request
//	mapback.go      addresses and cookies of an answer, mapped to what the client knows
//	mappings.go     the tables of the keys map_...
//	fields.go       request_headers: fields in the head that an upstream gets
//	forwarded.go    the fields that tell an upstream of the client: Forwarded, X-Forwarded-For
//	depend.go       which parts of a request the answer depends on, for a cache in front
//	serve.go        a request from the route to its answer
//	roundtrip.go    one connection: sending and receiving at once
//	answer.go       the answer, on its way to the client
//	tunnel.go       connections after an upgrade
//	frames.go       the places between the frames of a WebSocket where it can be closed
package proxy
