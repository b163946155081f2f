package server_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// passes makes a Middleware that adds its word to the field Way.
func passes(word string) handlers.Middleware {
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Add("Way", word)
			return next(req, resp)
		}
	}
}

// serveProgram runs a program with a configuration until its test ends, and returns the address of
// its first listener.
func serveProgram(t *testing.T, p *server.Program, text string) (string, *logtext.Buffer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, file, text)
	o, _ := server.Parse([]string{"-c", file, "-l", "127.0.0.1:0"},
		flag.NewFlagSet("", flag.ContinueOnError), io.Discard, os.Stderr)
	ctx, end := context.WithCancel(context.Background())
	log := new(logtext.Buffer)
	r, w := io.Pipe()
	lines := make(chan string, 1000) // more than there are
	go scan(io.TeeReader(r, log), lines)
	done := make(chan int)
	go func() {
		done <- p.Main(ctx, o, "", io.Discard, w)
		w.Close()
	}()
	t.Cleanup(func() {
		end()
		if code := <-done; code != 0 {
			t.Errorf("exit code %d, log:\n%s", code, log)
		}
		logtext.NoPanic(t, log.String())
	})
	return logged(t, lines, `msg=listening address=(\S+)`), log
}

// TestUse: the program's middleware is called around each kind of answer, in the order of
// README.md. A body that a handler sets leaves no room for what middleware writes.
func TestUse(t *testing.T) {
	p := server.NewProgram(config.Builtin())
	for _, word := range []string{"site-1", "site-2", "route-1", "route-2"} {
		p.RegisterMiddleware(word, passes(word))
	}
	p.RegisterMiddleware("writes", func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString("before ") // SetBody drops it
			status := next(req, resp)
			if _, err := resp.WriteString(" behind"); err == nil {
				t.Error("written behind a body that was set")
			}
			return status
		}
	})
	p.RegisterMiddleware("refuses", func(next conn.Handler) conn.Handler {
		return func(*conn.Request, *conn.Response) int { return 403 }
	})
	p.Use(passes("use-1"), passes("use-2"))
	p.Use(passes("use-3"))
	mux := handlers.NewMux()
	mux.Use(passes("mux"))
	outer := mux.Group("/mux", passes("outer"))
	outer.Group("/{id}", passes("inner")).Handle("/{$}", shows)
	p.Handle("/mux", mux.Serve)
	p.Handle("GET /pattern/{id}", shows)

	address, _ := serveProgram(t, p, `
[[site]]
use = ["site-1", "site-2"]
[[site.route]]
prefix = "/hello"
handler = "hello_world"
use = ["route-1", "route-2"]
[[site.route]]
prefix = "/fixed"
module = "response"
body = "fixed"
use = ["route-1"]
[[site.route]]
prefix = "/writes"
handler = "hello_world"
use = ["writes"]
[[site.route]]
prefix = "/refuses"
handler = "hello_world"
use = ["route-1", "refuses", "route-2"]
[[site.route]]
prefix = "/limited"
handler = "hello_world"
use = ["route-1"]
limit = { methods = "POST" }
[[site]]
host = "other.example"
`)
	const site, program = "site-1 site-2 ", "use-1 use-2 use-3"
	for _, c := range []struct {
		host, path string
		status     int
		way, text  string // of an error page the text is not compared
	}{
		{"", "/hello", 200, site + program + " route-1 route-2", "Hello, world!"},
		{"", "/fixed", 200, site + program + " route-1", "fixed"},
		{"", "/writes", 200, site + program, "Hello, world!"},
		{"", "/refuses", 403, site + program + " route-1", ""},
		{"", "/limited", 405, site + program, ""},
		{"", "/pattern/7", 200, site + program, "7"},
		{"", "/mux/7/", 200, site + program + " mux outer inner", "7"},
		{"", "/mux/none", 307, site + program + " mux", ""},
		{"", "/none", 404, site + program, ""},
		{"other.example", "/pattern/7", 200, program, "7"},
		{"other.example", "/none", 404, program, ""},
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), "GET", "http://"+address+c.path, nil))(t)
		req.Host, req.Close = c.host, true
		resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
		text := must.Body(t, resp)
		way := strings.Join(resp.Header.Values("Way"), " ")
		if resp.StatusCode != c.status || way != c.way || c.text != "" && text != c.text {
			t.Errorf("%s: %s by %q: %q; want %d by %q: %q",
				c.path, resp.Status, way, text, c.status, c.way, c.text)
		}
	}
}

func shows(req *conn.Request, resp *conn.Response) int {
	resp.WriteString(req.PathValue("id"))
	return 200
}

// TestUseOfUnknownNames: the configuration is refused at the key, and what is meant is named.
func TestUseOfUnknownNames(t *testing.T) {
	p := server.NewProgram(config.Builtin())
	p.RegisterMiddleware("count", passes("count"))
	s := source()
	s.Modules = p.Modules
	for text, want := range map[string]string{
		"[[site]]\nuse = ['cuont']": `t.conf:2: site.use: there is no middleware "cuont" ` +
			`(did you mean count?)`,
		route("prefix = '/'\nhandler = 'echo'\nuse = ['x']"): `t.conf:5: site.route.use: there is no ` +
			`middleware "x" (known: count)`,
	} {
		_, err := s.Parse("t.conf", text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	for _, m := range []struct {
		name string
		m    handlers.Middleware
		want string
	}{
		{"", passes(""), "a middleware needs a name"},
		{"count", passes(""), "registered twice"},
		{"none", nil, "the middleware is nil"},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, m.want) {
					t.Errorf("%q: panic %q, want %q", m.name, text, m.want)
				}
			}()
			p.RegisterMiddleware(m.name, m.m)
		}()
	}
}

// TestUseAtReload: Use is called for each site at the start, and again when the configuration is
// read again.
func TestUseAtReload(t *testing.T) {
	s := source()
	var around, used int
	s.Around = func(next conn.Handler) conn.Handler {
		around++
		return next
	}
	s.Modules.RegisterMiddleware("count", func(next conn.Handler) conn.Handler {
		used++
		return next
	})
	srv := serve(t, s, "threads = 1\n"+
		route("prefix = '/'\nhandler = 'hello_world'\nuse = ['count']\n")+
		"[[site]]\nhost = 'other.example'\n")
	for i := 1; i < 4; i++ {
		if around != 2*i || used != i {
			t.Errorf("%d times read: Use was called %d times, of the route %d times", i, around, used)
		}
		if got := fetch(t, srv.at); got != "Hello, world!" {
			t.Errorf("%q", got)
		}
		must.Do(t, srv.Reload())
	}
}
