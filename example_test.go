package lwango_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
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
		n, errs := loop.Collect(req.Thread, 10*time.Second, price, stock)
		if errors.Join(errs...) != nil {
			return http.StatusGatewayTimeout
		}
		fmt.Fprintf(resp, "%d left, %d each", n[1], n[0])
		return 200
	}

	url, stop := server.StartExample(h) // in a program: lwango.Handle("/price", h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// 3 left, 7 each
}

// A service with patterns, middleware for all of it and for a part of it, and JSON both ways.
func ExampleNewMux() {
	type item struct {
		Name  string `json:"name"`
		Price int    `json:"price"`
	}
	items := map[string]item{"7": {"lamp", 30}} // of this example's one loop: no lock

	mux := lwango.NewMux()
	mux.Use(func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			status := next(req, resp)
			fmt.Println(req.Pattern(), status)
			return status
		}
	})
	mux.Handle("GET /items/{id}", func(req *lwango.Request, resp *lwango.Response) int {
		found, ok := items[req.PathValue("id")]
		if !ok {
			return resp.Error(404, errors.New("there is no such item"))
		}
		return resp.JSON(200, found)
	})
	staffOnly := func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			if req.Header().Get("X-Staff") == "" {
				return 403
			}
			return next(req, resp)
		}
	}
	mux.Group("/admin", staffOnly).Handle("PUT /items/{id}",
		func(req *lwango.Request, resp *lwango.Response) int {
			var in item
			if err := req.BindJSON(&in); err != nil {
				return resp.Error(400, err)
			}
			items[req.PathValue("id")] = in
			return 204
		})

	url, stop := server.StartExample(mux.Serve) // or lwango.ListenAndServe(ctx, address, mux)
	defer stop()
	put := func(body string) {
		req, _ := http.NewRequest("PUT", url+"/admin/items/8", strings.NewReader(body))
		req.Header.Set("X-Staff", "Ann")
		req.Header.Set("Content-Type", "application/json")
		server.Show(http.DefaultClient.Do(req))
	}
	server.Show(http.Get(url + "/items/7"))
	put(`{"name": "chair", "price": "cheap"}`)
	put(`{"name": "chair", "price": 45}`)
	server.Show(http.Get(url + "/items/8"))
	// Output:
	// GET /items/{id} 200
	// 200 OK
	// {"name":"lamp","price":30}
	//
	// PUT /admin/items/{id} 400
	// 400 Bad Request
	// JSON, line 1, column 34: field "price": expected an integer, not string
	//
	// PUT /admin/items/{id} 204
	// 204 No Content
	//
	// GET /items/{id} 200
	// 200 OK
	// {"name":"chair","price":45}
}

// A handler that asks another server, and passes its answer on as it comes.
func ExampleGet() {
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "rain")
	}))
	defer weather.Close()

	h := func(req *lwango.Request, resp *lwango.Response) int {
		answer, err := lwango.Get(req, 10*time.Second, weather.URL)
		switch {
		case errors.Is(err, client.ErrConnect):
			return resp.Error(502, err)
		case err != nil:
			return resp.Error(504, err)
		}
		resp.WriteString("Today: ")
		if _, err := io.Copy(resp, answer.Body); err != nil {
			resp.Abort()
		}
		return 200
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// Today: rain
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

	url, stop := server.StartExample(h) // in a program: lwango.Handle("GET /count", h)
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
	url, stop := server.StartExample(lwango.HTTP(mux))
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

	url, stop := server.StartExample(lwango.HTTPOnLoop(hello))
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

// Connections of another protocol, on the loops of a server; ListenStreams serves nothing else.
func ExampleListener() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	echo := func(_ *loop.Thread, s *stream.Conn) error {
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

// session answers line after line, and returns when the client has left, or the server stops.
func session(_ *loop.Thread, s *stream.Conn) error {
	lines := bufio.NewScanner(s)
	for lines.Scan() {
		if _, err := fmt.Fprintln(s, strings.ToUpper(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A protocol of lines, on all CPUs. A stop does not wait for the clients.
func ExampleListenStreams() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := lwango.ListenStreams(ctx, "127.0.0.1:7000", -1, stream.Session(session)); err != nil {
		log.Fatal(err)
	}
}

// timed is middleware that logs how long requests take.
func timed(next lwango.Handler) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		start := time.Now()
		status := next(req, resp)
		slog.Info("answered", "target", req.Target(), "status", status, "in", time.Since(start))
		return status
	}
}

// Middleware around all that is served, by handlers of the program and by the configuration.
func ExampleUse() {
	lwango.Use(timed)
	lwango.Main()
}

// Middleware for what the configuration names:
//
//	[[site.route]]
//	prefix = "/files"
//	module = "serve_files"
//	path = "/srv/files"
//	use = ["members"]
func ExampleRegisterMiddleware() {
	lwango.RegisterMiddleware("members", func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			if _, ok := req.Cookie("member"); !ok {
				return resp.Redirect(303, "/login")
			}
			return next(req, resp)
		}
	})
	lwango.Main()
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

// What a service compares with is in this package.
func ExampleErrDeadlineExceeded() {
	stock := func(req *lwango.Request, resp *lwango.Response) int {
		n, err := lwango.Await(req, time.Millisecond, func(ctx context.Context) (int, error) {
			<-ctx.Done() // a database that is slow
			return 0, ctx.Err()
		})
		switch {
		case err == nil:
			return resp.JSON(200, n)
		case errors.Is(err, lwango.ErrClientGone):
			return 0 // hardly anyone reads the answer
		case errors.Is(err, lwango.ErrNoWorker), errors.Is(err, lwango.ErrDeadlineExceeded):
			resp.Header().Set("Retry-After", "1")
			return resp.Text(503, "the database is slow\n")
		}
		return resp.Error(500, err)
	}
	url, stop := server.StartExample(stock)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 503 Service Unavailable
	// the database is slow
}

// BindJSON says in a *BindError what is wrong, and in which field.
func ExampleBindError() {
	order := func(req *lwango.Request, resp *lwango.Response) int {
		var in struct {
			Count int `json:"count"`
		}
		err := req.BindJSON(&in)
		if bad, ok := errors.AsType[*lwango.BindError](err); ok {
			return resp.Text(bad.Status, bad.Field+" is wrong\n")
		}
		if err != nil {
			return resp.Error(400, err)
		}
		return resp.JSON(201, in)
	}
	url, stop := server.StartExample(order)
	defer stop()
	server.Show(http.Post(url, "application/json", strings.NewReader(`{"count": "many"}`)))
	// Output:
	// 400 Bad Request
	// count is wrong
}

// A configuration in the program: its text could come from an embed.FS, by FS and File.
func ExampleServer_config() {
	s := lwango.Server{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Config: `
		[[site]]

		[[site.route]]
		prefix = "/robots.txt"
		module = "response"
		body = "User-agent: *"
	`}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	running, err := s.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	server.Show(http.Get("http://" + running.Addrs()[0] + "/robots.txt"))
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(running.Wait())
	// Output:
	// 200 OK
	// User-agent: *
	// <nil>
}

// A server behind a proxy, whose word on the client is believed.
func ExampleServer_trustedProxies() {
	s := lwango.Server{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		TrustedProxies: []string{"127.0.0.0/8"},
		Handler: lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
			return resp.Text(200, "You are "+req.RemoteAddr().Addr().String())
		})}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	running, err := s.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	req, _ := http.NewRequest("GET", "http://"+running.Addrs()[0], nil)
	req.Header.Set("X-Forwarded-For", "203.0.113.9")
	server.Show(http.DefaultClient.Do(req))
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(running.Wait())
	// Output:
	// 200 OK
	// You are 203.0.113.9
	// <nil>
}

// A Server that obtains its certificates. The authority connects to port 443 of the domain.
func ExampleACME() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := lwango.Server{Addr: ":443", Handler: lwango.NewMux(),
		ACME: &lwango.ACME{Domains: []string{"example.org", "www.example.org"},
			Email: "admin@example.org", Cache: "/var/lib/shop/acme"}}
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
