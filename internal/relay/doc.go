// Package relay takes another server's answer to a client. The other server does not wait for the
// client as long as there is room: fastcgi and proxy pass answers on.
//
//	flow.go     an answer on its way
//	press.go    the pace of a client whose answer holds up the upstream
//	spool.go    what a slow client has no room for yet
//	fault.go    what the client is told if that fails
//	buffers.go  memory that is held while bytes move, and not while a thread waits
package relay
