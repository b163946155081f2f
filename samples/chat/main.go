// Chat is rooms to talk in, for browsers and anything else that speaks WebSocket.
//
//	main.go    flags and routes
//	chat.go    a person's WebSocket
//	room.go    who is in a room
//	guests.go  how many sockets an address has
//	flood.go   how much a client may send
//	frame.go   what a client sends
//	notice.go  what the server sends
//	follow.go  a room as an event stream
//	small.go   small WebSockets beside the chat
//	broker.go  Redis or NATS
//	page.go    the page
package main

import (
	"context"
	"flag"
	"os"

	"github.com/lwango/lwango"
)

// hub carries what is said; if the configuration names a broker, to other processes as well.
var hub = lwango.Topics()

// perAddress is how many sockets one address may have.
var perAddress = flag.Uint("per-address", 128,
	"`sockets` that one address may have; 0: any number, for where a proxy limits them")

func main() {
	hub.Limits.History = remembered
	lwango.UseBroker(byScheme{})
	lwango.Handle("/", page())
	lwango.Handle("/ws-chat", chat)
	lwango.Handle("/sse-chat", follow)
	lwango.Handle("/ws-write", socket(write))
	lwango.Handle("/ws-read", socket(read))
	// No configuration unless -c names one: an lwango.conf of the current folder may have a route
	// for / as well.
	os.Exit(lwango.Run(context.Background(), ""))
}
