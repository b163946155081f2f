// Package gateway is what the modules of the Common Gateway Interface have in common: fastcgi,
// uwsgi and scgi. It sends a request to an application and takes the answer, both at once. The
// module says what comes around the variables, the body and the answer on the connection, as a
// Protocol. What these modules share with proxy is in internal/modules/reverseproxy.
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
