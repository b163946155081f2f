// Lwangoapp is lwango with handlers of its own: the benchmark's works that need one run it in place of the command.
package main

import (
	"flag"
	"log"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/chatrules"
)

func main() {
	address := flag.String("beside", "", "have goroutines answer at this `ADDRESS`, beside the loops")
	backend := flag.String("backend", "", "have /proxy passed on to this `ADDRESS`")
	lwango.ParseFlags()
	if *address != "" {
		if err := besides(*address, *backend); err != nil {
			log.Fatal(err)
		}
	}
	lwango.Handle("/sleep", sleep)
	lwango.Handle(chatrules.RoomPath, room)
	lwango.Handle(chatrules.EchoPath, echoMessages)
	lwango.Handle(chatrules.CollectPath, collect)
	lwango.Main()
}
