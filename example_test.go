package lwango_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A whole program. It has the command line of lwango itself: -l sets the address.
func Example() {
	lwango.Handle("/", func(req *lwango.Request, resp *lwango.Response) int {
		resp.WriteString("Hello, " + req.Path())
		return 200
	})
	lwango.Main()
}

// The longest prefix wins, whatever the order.
func ExampleHandle() {
	lwango.Handle("/", func(req *lwango.Request, resp *lwango.Response) int {
		resp.WriteString("the start page")
		return 200
	})
	lwango.Handle("/items", func(req *lwango.Request, resp *lwango.Response) int {
		resp.WriteString("item " + req.SubPath()) // of /items/7: /7
		return 200
	})
	lwango.Main()
}

// A handler waits in plain sequential code, here for two threads that run at the same time and end
// with the request.
func ExampleHandler() {
	var h lwango.Handler = func(req *lwango.Request, resp *lwango.Response) int {
		price := loop.Go(req.Thread, func(t *loop.Thread) (int, error) {
			return 7, t.Sleep(time.Millisecond)
		})
		stock := loop.Go(req.Thread, func(t *loop.Thread) (int, error) {
			return 3, t.Sleep(time.Millisecond)
		})
		n, err := loop.AwaitAll(req.Thread, 10*time.Second, price, stock)
		if err != nil {
			return http.StatusGatewayTimeout
		}
		fmt.Fprintf(resp, "%d left, %d each", n[1], n[0])
		return 200
	}

	url, stop := server.Serve(h) // in a program: lwango.Handle("/price", h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// 3 left, 7 each
}

// What blocks runs off the loop, here a library that takes a context. That ends after a second, and
// when the client leaves.
func ExampleAwait() {
	count := func(ctx context.Context, table string) (int, error) { // as of database/sql
		return 42, ctx.Err()
	}
	var h lwango.Handler = func(req *lwango.Request, resp *lwango.Response) int {
		n, err := lwango.Await(req, 10*time.Second, func(ctx context.Context) (int, error) {
			return count(ctx, "items")
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // too slow, or all workers are busy
			return 503
		case err != nil:
			return resp.Error(500, err)
		}
		return resp.Text(200, fmt.Sprint(n, " items"))
	}

	url, stop := server.Serve(h) // in a program: lwango.Handle("GET /count", h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// 42 items
}

// Handlers of net/http may block: each request gets a goroutine of its own.
func ExampleHTTP() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /app/rooms/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "This is room %s.", r.PathValue("name"))
	})

	// in a program: lwango.Handle("/app", lwango.HTTP(mux))
	url, stop := server.Serve(lwango.HTTP(mux))
	defer stop()
	server.Show(http.Get(url + "/app/rooms/12"))
	// Output:
	// 200 OK
	// This is room 12.
}

// A handler of net/http that does not block runs on the request's own thread, which costs less.
func ExampleHTTPOnLoop() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s!", r.FormValue("name"))
	})

	url, stop := server.Serve(lwango.HTTPOnLoop(hello))
	defer stop()
	server.Show(http.Get(url + "/?name=Lwan"))
	// Output:
	// 200 OK
	// Hello, Lwan!
}

// A program with a flag and a configuration file of its own, which stops after a day.
func ExampleRun() {
	greeting := flag.String("greeting", "Hello", "what clients are told")
	lwango.ParseFlags()
	lwango.Handle("/", func(req *lwango.Request, resp *lwango.Response) int {
		resp.WriteString(*greeting)
		return 200
	})
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	defer cancel()
	os.Exit(lwango.Run(ctx, "greeter.conf"))
}

// A handler that answers with the next message of a topic, to which others post.
func ExampleTopics() {
	room := lwango.Topics().Topic("room")
	lwango.Handle("/say", func(req *lwango.Request, resp *lwango.Response) int {
		room.Publish([]byte(req.Query().Get("text"))) // never waits
		return http.StatusNoContent
	})
	lwango.Handle("/next", func(req *lwango.Request, resp *lwango.Response) int {
		sub := room.Subscribe(req.Thread, pubsub.Options{}) // it ends with the request
		if _, err := req.AwaitAny(time.Minute, sub); err != nil {
			return http.StatusGatewayTimeout
		}
		resp.SetBody(sub.Next().Data)
		return 200
	})
	lwango.Main()
}
