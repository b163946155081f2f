package handlers_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/server"
)

// greet is a module: settings with their keys, a function that makes a handler of them, and
// Register.
type greet struct {
	Name  string `toml:"name"`
	Times int    `toml:"times"`
}

func newGreet(s greet, env handlers.Env) (conn.Handler, error) {
	if s.Times < 1 {
		return nil, handlers.BadKey("times", "expected 1 or more, not %d", s.Times)
	}
	return func(req *conn.Request, resp *conn.Response) int {
		for range s.Times {
			fmt.Fprintf(resp, "Hello, %s! ", s.Name)
		}
		return 200
	}, nil
}

func registerGreet(r *handlers.Registry) {
	handlers.RegisterModule(r, "greet", greet{Times: 1}, newGreet)
}

// A module of one's own, and the way from its settings to the answer. The server takes the settings
// from the configuration, which says module = "greet", name = "Lwan".
func Example() {
	var r handlers.Registry
	registerGreet(&r)

	m, _ := r.Module("greet")
	settings := m.NewSettings().(*greet) // with the defaults
	settings.Name = "Lwan"
	h, err := m.Build(settings, handlers.Env{Dir: "/etc", Prefix: "/greet"})
	if err != nil {
		log.Fatal(err)
	}
	router, err := handlers.NewRouter([]handlers.Site{
		{Routes: []handlers.Route{{Prefix: "/greet", Handler: h}}},
	})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.Serve(router.Serve)
	defer stop()
	server.Show(http.Get(url + "/greet/me"))
	// Output:
	// 200 OK
	// Hello, Lwan!
}

// A bad value names its key, so that the configuration's error can name the line.
func ExampleBadKey() {
	_, err := newGreet(greet{Name: "Lwan", Times: -1}, handlers.Env{})
	fmt.Println(err)
	// Output: times: expected 1 or more, not -1
}

// The longest prefix wins, at segment boundaries, in the site that the request's host names.
func ExampleNewRouter() {
	says := func(text string) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			fmt.Fprintf(resp, "%s: %s", text, req.SubPath())
			return 200
		}
	}
	router, err := handlers.NewRouter([]handlers.Site{
		{Hosts: []string{"example.org"},
			Routes: []handlers.Route{{Prefix: "/", Handler: says("example")}}},
		{Routes: []handlers.Route{ // every other host
			{Prefix: "/", Handler: says("all")},
			{Prefix: "/docs", Handler: says("docs")},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.Serve(router.Serve)
	defer stop()
	server.Show(http.Get(url + "/docs/a"))
	server.Show(http.Get(url + "/docsa"))
	req, err := http.NewRequest("GET", url+"/docs/a", nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Host = "example.org"
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// 200 OK
	// docs: /a
	// 200 OK
	// all: /docsa
	// 200 OK
	// example: /docs/a
}

func ExampleParseSize() {
	for _, text := range []string{"16KiB", "16kB", "16k"} {
		n, err := handlers.ParseSize(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(int64(n))
	}
	// Output:
	// 16384
	// 16000
	// unknown unit "k": write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB
}
