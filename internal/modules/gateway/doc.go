// Package gateway is the common part of the modules fastcgi, uwsgi and scgi. It sends a request to
// an application and takes the answer, both at once. A module's Protocol frames the variables, the
// body and the answer on the connection. Package internal/modules/reverseproxy has what these
// modules share with proxy.
//
//	route.go      Route
//	call.go       Call: one request
//	ping.go       health checks
//	plain.go      Plain: routes of protocols that have a head and nothing else, uwsgi and SCGI
//	roundtrip.go  one connection: sending and receiving at once
//	answer.go     the response, on its way to the client
//	flow.go       a client that is slower than the application
//	vars.go       the variables that the application gets
package gateway
