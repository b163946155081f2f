// Echo sends back what it gets, over TCP, on all processors.
package main

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/asynclog"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

func main() {
	address := flag.String("l", "localhost:7007", "listen on `ADDRESS`")
	handoff := flag.String("handoff", "direct",
		"how loops and threads take turns: direct or channel")
	flag.Parse()
	logs := asynclog.New(os.Stderr) // no loop waits for the reader of the log
	slog.SetDefault(logs.Logger())
	err := run(*address, *handoff)
	if err != nil {
		slog.Error("ended", "error", err)
	}
	logs.Close(time.Second)
	if err != nil {
		os.Exit(1)
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
		ln, err := stream.Serve(loops[i], "tcp", address, 0, echo)
		if err != nil {
			return err
		}
		address = ln.Addr().String() // for the other loops, where the port was 0
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	slog.Info("listening", "address", address)

	ended := make(chan error, len(loops))
	for _, l := range loops {
		go func() { ended <- l.Run() }()
	}
	select {
	case <-end:
	case err := <-ended: // a loop has failed
		return err
	}
	for _, l := range loops {
		l.Stop(time.Second)
	}
	for range loops {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// echo is called when there is something to read, and returns when all of that was sent back. It
// waits only while the peer does not read. At the end of input Copy returns nil, and the connection
// is closed.
func echo(_ *loop.Thread, s *stream.Stream) error {
	s.SetNoWait(true)
	_, err := io.Copy(s, s)
	return err
}
