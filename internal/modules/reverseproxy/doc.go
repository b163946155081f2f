// Package reverseproxy is what the modules fastcgi and proxy have in common: it takes a request to
// another server and its answer to the client. The module itself speaks the protocol, as a
// RoundTripper. The other server does not wait for the client as long as there is room.
//
//	settings.go    Route, what the requests of a route have in common
//	servername.go  the name for TLS, where each request has its own
//	key.go         the key of balance = "hash"
//	split.go       upstreams for some of the requests (A/B)
//	sticky.go      the cookie by which a client comes back to its upstream
//	depend.go      which parts of a request the choice of the upstream depends on, for a cache in
//	               front
//	call.go        Call: one request, from its body to the answer if all attempts fail
//	accel.go       X-Accel-Redirect: what the client gets instead of the upstream's body
//	intercept.go   answers of the upstream that an error page replaces
//	failing.go     which answers are failures of an upstream, and the effect of many
//	health.go      health checks
//	retry.go       when another attempt is made
//	flow.go        an answer on its way
//	silence.go     timeouts of a request on which nothing moves
//	press.go       the pace of a client whose answer holds up the upstream
//	spool.go       the part of an answer that a slow client has no room for yet
//	fault.go       the status for a failure
package reverseproxy
