package handlers_test

import (
	"fmt"
	"log"
	"net/http"
	"regexp"
	"strings"

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

	url, stop := server.StartExample(router.Serve)
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

	url, stop := server.StartExample(router.Serve)
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

var place = regexp.MustCompile(`[^( ]+/(\w+\.go):\d+`) // the file and the line of a registration

// Patterns are those of net/http.ServeMux: the most specific one answers, whatever the order.
func ExampleMux() {
	mux := handlers.NewMux() // lwango.NewMux()
	mux.Handle("/", func(_ *conn.Request, resp *conn.Response) int {
		return resp.Text(404, "nothing here")
	})
	mux.Handle("GET /items/{id}", func(req *conn.Request, resp *conn.Response) int {
		return resp.Text(200, "item "+req.PathValue("id"))
	})
	mux.Handle("DELETE /items/{id}", func(*conn.Request, *conn.Response) int { return 204 })
	mux.Handle("GET /items/new", func(_ *conn.Request, resp *conn.Response) int {
		return resp.Text(200, "a form")
	})
	mux.Handle("GET /files/{path...}", func(req *conn.Request, resp *conn.Response) int {
		return resp.Text(200, "file "+req.PathValue("path"))
	})

	url, stop := server.StartExample(mux.Serve)
	defer stop()
	server.Show(http.Get(url + "/items/7"))
	server.Show(http.Get(url + "/items/a%2Fb"))
	server.Show(http.Get(url + "/items/new"))
	server.Show(http.Get(url + "/files/2026/report.txt"))
	server.Show(http.Get(url + "/item"))

	defer func() { // two patterns of which neither is more specific
		text := fmt.Sprint(recover())
		for _, line := range strings.SplitAfter(text, ") ") {
			fmt.Println(place.ReplaceAllString(strings.TrimSpace(line), "$1"))
		}
	}()
	mux.Handle("GET /{kind}/new", func(*conn.Request, *conn.Response) int { return 200 })
	// Output:
	// 200 OK
	// item 7
	// 200 OK
	// item a/b
	// 200 OK
	// a form
	// 200 OK
	// file 2026/report.txt
	// 404 Not Found
	// nothing here
	// lwango: Handle: "GET /{kind}/new" (example_test.go)
	// conflicts with "GET /items/{id}" (example_test.go): both match some paths, and neither is more specific
}

// Handlers that have a prefix and middleware in common. The Mux's own is outermost, and is around
// what the Mux answers itself, too.
func ExampleGroup() {
	note := func(word string) handlers.Middleware {
		return func(next conn.Handler) conn.Handler {
			return func(req *conn.Request, resp *conn.Response) int {
				fmt.Println(word, req.Method(), req.Path())
				return next(req, resp)
			}
		}
	}
	staffOnly := func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if _, password, ok := req.BasicAuth(); !ok || password != "secret" {
				resp.Header().Set("WWW-Authenticate", "Basic")
				return resp.Text(401, "staff only")
			}
			return next(req, resp)
		}
	}
	mux := handlers.NewMux() // lwango.NewMux()
	mux.Use(note("mux"))
	admin := mux.Group("/admin", note("admin"), staffOnly)
	admin.Handle("DELETE /items/{id}", func(req *conn.Request, resp *conn.Response) int {
		return resp.Text(200, req.PathValue("id")+" is gone")
	})

	url, stop := server.StartExample(mux.Serve)
	defer stop()
	ask := func(method, password string) {
		req, err := http.NewRequest(method, url+"/admin/items/7", nil)
		if err != nil {
			log.Fatal(err)
		}
		req.SetBasicAuth("ann", password)
		server.Show(http.DefaultClient.Do(req))
	}
	ask("DELETE", "guessed")
	ask("DELETE", "secret")
	// Output:
	// mux DELETE /admin/items/7
	// admin DELETE /admin/items/7
	// 401 Unauthorized
	// staff only
	// mux DELETE /admin/items/7
	// admin DELETE /admin/items/7
	// 200 OK
	// 7 is gone
}
