package lwango_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// A server that a signal stops.
func ExampleListenAndServe() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hello := lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
		resp.WriteString("Hello, " + req.Path())
		return 200
	})
	if err := lwango.ListenAndServe(ctx, "127.0.0.1:8080", hello); err != nil {
		log.Fatal(err)
	}
}

// A server beside other work: it gets another handler, and stops.
func ExampleServer_Start() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	say := func(text string) lwango.Handler {
		return func(_ *lwango.Request, resp *lwango.Response) int {
			resp.WriteString(text)
			return 200
		}
	}
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: say("before"),
		Logger: slog.New(slog.DiscardHandler)}
	running, err := s.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	url := "http://" + running.Addrs()[0]
	server.Show(http.Get(url))
	s.Handler = say("after")
	if err := running.Reload(s); err != nil {
		log.Fatal(err)
	}
	server.Show(http.Get(url))
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(running.Wait())
	// Output:
	// 200 OK
	// before
	// 200 OK
	// after
	// <nil>
}

// Connections of another protocol, on the loops of a server; ServeStreams serves nothing else.
func ExampleListener() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	echo := func(_ *loop.Thread, s *stream.Stream) error {
		s.SetNoWait(true)
		_, err := io.Copy(s, s)
		return err
	}
	running, err := lwango.Server{Logger: slog.New(slog.DiscardHandler),
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", Streams: echo}}}.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, err := net.Dial("tcp", running.Addrs()[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(c, "to and fro")
	line, err := bufio.NewReader(c).ReadString('\n')
	fmt.Print(line)
	c.Close()
	stop()
	fmt.Println(err, running.Wait())
	// Output:
	// to and fro
	// <nil> <nil>
}
