// Chat is rooms to talk in, for browsers and anything else that speaks WebSocket.
package main

import (
	"github.com/lwango/lwango"
	"github.com/lwango/lwango/pubsub"
)

var hub pubsub.Hub

func main() {
	lwango.Handle("/", page())
	lwango.Handle("/ws-chat", chat)
	lwango.Handle("/sse-chat", follow)
	lwango.Handle("/ws-write", write)
	lwango.Handle("/ws-read", read)
	lwango.Main()
}
