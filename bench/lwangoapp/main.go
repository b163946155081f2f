// Lwangoapp is lwango with handlers of its own: the benchmark's works that need one run it in place of the command.
package main

import (
	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/chatrules"
)

func main() {
	lwango.Handle("/sleep", sleep)
	lwango.Handle(chatrules.RoomPath, room)
	lwango.Handle(chatrules.EchoPath, echoMessages)
	lwango.Handle(chatrules.CollectPath, collect)
	lwango.Main()
}
