// Echo sends back what it gets, over TCP, on all processors.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

func main() {
	address := flag.String("l", "localhost:7007", "listen on `ADDRESS`")
	handoff := flag.String("handoff", "direct",
		"how loops and threads take turns: direct or channel")
	flag.Parse()
	how, err := coro.ParseHandoff(*handoff)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// ListenStreams is this with the Server's defaults.
	err = lwango.Server{
		Listeners: []lwango.Listener{{Addr: *address, Streams: echo}},
		Handoff:   how,
		Grace:     time.Second,
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
}

// echo is called when there is something to read, and returns when all of that was sent back. It
// waits only while the peer does not read. At the end of input Copy returns nil, and the connection
// is closed.
func echo(_ *loop.Thread, s *stream.Conn) error {
	s.SetNoWait(true)
	_, err := io.Copy(s, s)
	return err
}
