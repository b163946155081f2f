package lwango_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/server"
)

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

// A Mux is what ListenAndServe and other routers take. Here a path of it answers with JSON.
func ExampleNewMux() {
	type item struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	mux := lwango.NewMux()
	mux.Use(func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			status := next(req, resp)
			fmt.Printf("%q: %d\n", req.Pattern(), status)
			return status
		}
	})
	mux.Handle("GET /items/{id}", func(req *lwango.Request, resp *lwango.Response) int {
		return resp.JSON(200, item{req.PathValue("id"), "tea"})
	})

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: mux, Threads: 1}
	running, err := s.Start(ctx) // most programs: lwango.ListenAndServe(ctx, "127.0.0.1:8080", mux)
	if err != nil {
		log.Fatal(err)
	}
	url := "http://" + running.Addrs()[0]
	server.Show(http.Get(url + "/items/7"))
	answer, err := http.Post(url+"/items/7", "text/plain", nil)
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Allow"))
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := running.Wait(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// "GET /items/{id}": 200
	// 200 OK
	// {"id":"7","name":"tea"}
	//
	// "": 405
	// 405 Method Not Allowed GET, HEAD
}
