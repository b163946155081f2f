// Echo sends back what it gets, over TCP, on all processors.
package main

import (
	"flag"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

func main() {
	address := flag.String("l", "localhost:7007", "listen on `ADDRESS`")
	handoff := flag.String("handoff", "direct", "how loops and threads take turns: direct or channel")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(*address, *handoff); err != nil {
		log.Fatal(err)
	}
}

func run(address, handoff string) error {
	how, err := coro.ParseHandoff(handoff)
	if err != nil {
		return err
	}
	loops := make([]*loop.Loop, loop.Reserve(0))
	for i := range loops {
		if loops[i], err = loop.New(loop.Options{Handoff: how}); err != nil {
			return err
		}
		ln, err := conn.ServeStreams(loops[i], "tcp", address, 0, echo)
		if err != nil {
			return err
		}
		address = ln.Addr().String() // for the other loops, where the port was 0
	}
	slog.Info("listening", "address", address)

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() {
			if err := l.Run(); err != nil {
				log.Fatal(err)
			}
		})
	}
	<-end
	for _, l := range loops {
		l.Stop(time.Second)
	}
	running.Wait()
	return nil
}

// echo is called when there is something to read, and returns when all of it was sent back. It waits only for a peer
// that does not take its bytes. At the end of input Copy returns nil, and the connection is closed.
func echo(_ *loop.Thread, s *conn.Stream) error {
	s.SetNoWait(true)
	_, err := io.Copy(s, s)
	return err
}
