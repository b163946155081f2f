// Chat is rooms to talk in, for browsers and anything else that speaks WebSocket.
package main

import (
	"context"
	"os"

	"github.com/lwango/lwango"
)

// hub carries what is said, to other processes as well, if the configuration names a broker.
var hub = lwango.Topics()

func main() {
	lwango.Handle("/", page())
	lwango.Handle("/ws-chat", chat)
	lwango.Handle("/sse-chat", follow)
	lwango.Handle("/ws-write", write)
	lwango.Handle("/ws-read", read)
	os.Exit(lwango.Run(context.Background(), "")) // an lwango.conf that lies about may have something else at /
}
