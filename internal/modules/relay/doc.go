// Package relay is what the modules fastcgi and proxy have in common: it takes a request to another
// server and its answer to the client. The module itself speaks the protocol, as a Talk. The other
// server does not wait for the client as long as there is room.
//
//	settings.go    Route, what the requests of a route have in common
//	servername.go  the name for TLS, where each request has its own
//	key.go         what balance = "hash" goes by
//	split.go       upstreams for some of the requests (A/B)
//	sticky.go      the cookie by which a client comes back to its upstream
//	depend.go      what a cache in front has to know of all these
//	call.go        Call: one request, from its body to what the client is told if all fails
//	accel.go       what the client gets instead of a body, where the upstream names it
//	intercept.go   answers that a page of the site takes the place of
//	failing.go     what is a failure of an upstream, and what comes of many
//	health.go      checks of the server's own
//	retry.go       when another attempt is made
//	flow.go        an answer on its way
//	silence.go     what ends an exchange on which nothing moves
//	press.go       the pace of a client whose answer holds up the upstream
//	spool.go       what a slow client has no room for yet
//	fault.go       the status for a failure
package relay
