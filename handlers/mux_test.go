package handlers_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// shows answers with what the request was matched with.
func shows(names ...string) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		fmt.Fprintf(resp, "%s|%s|%s", req.Pattern(), req.Prefix(), req.SubPath())
		for _, name := range names {
			fmt.Fprintf(resp, "|%s=%q", name, req.PathValue(name))
		}
		return 200
	}
}

func TestMux(t *testing.T) {
	mux := handlers.NewMux()
	mux.Handle("GET /items/{id}", shows("id", "none"))
	mux.Handle("POST /items", shows())
	mux.Handle("/tree/", shows())
	mux.Handle("/files/{path...}", shows("path"))
	mux.Handle("GET /{$}", shows())
	mux.Handle("example.org/items/{id}", shows("id"))
	mux.Handle("/a%20b/{x}/{y}/c", shows("x", "y"))
	long := strings.Repeat("x", 300)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Handler: mux.Serve})
		for _, c := range []struct {
			line, want string
			why        string
		}{
			{"GET /", "200 GET /{$}||/", ""},
			{"GET /items/7", `200 GET /items/{id}|/items|/7|id="7"|none=""`, ""},
			{"GET /items/" + long,
				`200 GET /items/{id}|/items|/` + long + `|id="` + long + `"|none=""`, "a long value"},
			{"GET /items/a%20b?q", `200 GET /items/{id}|/items|/a b|id="a b"|none=""`, "a decoded value"},
			{"GET /items/a%2Fb", `200 GET /items/{id}|/items|/a/b|id="a/b"|none=""`, "an encoded slash"},
			{"GET /items/https%3A%2F%2Fgithub.com%2Fx",
				`200 GET /items/{id}|/items|/https:/github.com/x|id="https://github.com/x"|none=""`,
				"two encoded slashes"},
			{"GET //items%3B/../items/a%3Bb", "307 /items/a%3Bb", "not clean, in its encodings"},
			{"GET http://example.ORG:80/items/7", `200 example.org/items/{id}|/items|/7|id="7"`, "a host"},
			{"GET http://example.ORG./items/7", `200 example.org/items/{id}|/items|/7|id="7"`,
				"a dot at its end"},
			{"GET /a%20b/%C3%A9/é/c", `200 /a%20b/{x}/{y}/c|/a b|/é/é/c|x="é"|y="é"`, "encoded or not"},
			{"GET /files/", `200 /files/{path...}|/files|/|path=""`, "nothing left"},
			{"GET /files/a/b%2Fc/", `200 /files/{path...}|/files|/a/b/c/|path="a/b/c/"`, "the rest"},
			{"PUT /tree/a/b", `200 /tree/|/tree|/a/b`, ""},
			{"GET /items/7/x", "404", ""},
			{"GET /items/", "404", "no empty value"},
			{"DELETE /items/7", "405 GET, HEAD", "another method"},
			{"OPTIONS /items/7", "405 GET, HEAD", "no method is answered for the program"},
			{"OPTIONS /tree/", "200 /tree/|/tree|/", "but a pattern without one has all"},
			{"GET /items", "405 POST", "another method"},
			{"GET /tree", "307 /tree/", "a slash is missing"},
			{"POST /tree?a=b&c", "307 /tree/?a=b&c", "the query stays"},
			{"GET //tree//x", "307 /tree/x", "not clean"},
			{"GET /x/../items/a%3Fb", "307 /items/a%3Fb", "not clean, encoded anew"},
			{"GET /x%2F..%2Fitems/7", "307 /items/7", "dot segments between encoded slashes"},
			{"GET /items/%2e%2e/tree", "307 /tree/", "encoded dot segments"},
			{"GET /items/secret/..%2F..%2Ftree", "307 /tree/", "no value leads upwards"},
			{"GET /%5cevil.example/..//tree/%5cx", "307 /tree/%5cx", "no backslash in front"},
			{"GET /..//tree", "400", "above the root"},
			{"GET /nothing//x", "404", "no redirection to nothing"},
		} {
			a := s.Request(c.line, nil, "")
			got := a.Status[:3]
			switch a.StatusCode {
			case 200:
				got += " " + a.Text
			case 307:
				got += " " + a.Header.Get("Location")
			case 405:
				got += " " + a.Header.Get("Allow")
			}
			if got != c.want {
				t.Errorf("%s: got %s, want %s (%s)", c.line, got, c.want, c.why)
			}
		}
		a := s.Request("HEAD /items/7", nil, "")
		if a.StatusCode != 200 || a.Text != "" || a.ContentLength < 10 {
			t.Errorf("HEAD: %s, %d", a.Status, a.ContentLength)
		}
	}, modes.Plain, modes.Direct)
}

// Strings of one request stay as they are while others come on the same connection.
func TestPathValuesMayBeKept(t *testing.T) {
	var kept []string
	mux := handlers.NewMux()
	mux.Handle("/{a}/{b}", func(req *conn.Request, _ *conn.Response) int {
		kept = append(kept, req.PathValue("a"), req.PathValue("b"))
		return 204
	})
	s := server.Start(t, modes.Direct, conn.Config{Handler: mux.Serve})
	c := s.Dial()
	for i := range 200 {
		c.Do("GET",
			fmt.Sprintf("GET /first%d/%sy HTTP/1.1\r\nHost: a\r\n\r\n", i, strings.Repeat("x", i)))
	}
	s.Stop(0)
	for i := range 200 {
		a, b := fmt.Sprintf("first%d", i), strings.Repeat("x", i)+"y"
		if kept[2*i] != a || kept[2*i+1] != b {
			t.Fatalf("request %d: %q and %q", i, kept[2*i], kept[2*i+1])
		}
	}
}

// A Mux within a Mux leaves the other one's values alone if it matches nothing, and so does a
// handler that is asked or called instead.
func TestMuxWithinMux(t *testing.T) {
	inner := handlers.NewMux()
	inner.Handle("/{x}/{y}/z", shows("x", "y"))
	outer := handlers.NewMux()
	outer.Handle("/{first}/{rest...}", func(req *conn.Request, resp *conn.Response) int {
		status := inner.Serve(req, resp)
		if status != 404 {
			return status
		}
		if status, _, err := req.Subrequest("/1/2/z", inner.Serve); status != 200 || err != nil {
			return 500
		}
		req.Layer().Instead("/1/2/z", resp, func(req *conn.Request, _ *conn.Response) int {
			return inner.Serve(req, resp)
		})
		resp.Layer().DropBody()
		fmt.Fprint(resp, req.Pattern(), req.PathValue("first"), req.PathValue("rest"))
		return 200
	})
	s := server.Start(t, modes.Direct, conn.Config{Handler: outer.Serve})
	for line, want := range map[string]string{
		"GET /a/b/z": `/{x}/{y}/z||/a/b/z|x="a"|y="b"`,
		"GET /a/b/c": "/{first}/{rest...}ab/c",
	} {
		if a := s.Request(line, nil, ""); a.Text != want {
			t.Errorf("%s: %s, %q, want %q", line, a.Status, a.Text, want)
		}
	}
}

// notes makes a Middleware that adds a word before and behind.
func notes(word string) handlers.Middleware {
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString(word + "[" + req.PathValue("id"))
			defer resp.WriteString("]")
			return next(req, resp)
		}
	}
}

// TestLayers: those of a Mux are outermost and around its own answers, those of a group within; the
// first one is always the outermost.
func TestLayers(t *testing.T) {
	mux := handlers.NewMux()
	mux.Handle("/early", shows()) // before Use, which is around it all the same
	mux.Use(notes("a"), notes("b"))
	mux.Use(notes("c"))
	api := mux.Group("/api", notes("d"))
	api.Use(notes("e"))
	api.Handle("GET /items/{id}", shows())
	admin := api.Group("/{site}/admin/", notes("f"))
	admin.Handle("/{$}", shows("site"))
	mux.Group("", notes("g")).Handle("example.org/x", shows())
	host := mux.Group("example.org/h")
	host.Handle("/y", shows())
	s := server.Start(t, modes.Direct, conn.Config{Handler: mux.Serve})
	for line, want := range map[string]string{
		"GET /early":                 "200 a[b[c[/early|/early|/]]]",
		"GET /api/items/7":           "200 a[b[c[d[7e[7GET /api/items/{id}|/api/items|/7]]]]]",
		"GET /api/s/admin/":          `200 a[b[c[d[e[f[/api/{site}/admin/{$}|/api|/s/admin/|site="s"]]]]]]`,
		"GET http://example.org/x":   "200 a[b[c[g[example.org/x|/x|/]]]]",
		"GET http://example.org/h/y": "200 a[b[c[example.org/h/y|/h/y|/]]]",
		"POST /api/items/7":          "405 a[b[c[]]]",
		"GET /none":                  "404 a[b[c[]]]",
	} {
		if a := s.Request(line, nil, ""); a.Status[:4]+a.Text != want {
			t.Errorf("%s: %s %s, want %s", line, a.Status, a.Text, want)
		}
	}
}

// TestMistakesOfPrograms: each panic says what is wrong, and where.
func TestMistakesOfPrograms(t *testing.T) {
	const here = `\S*/mux_test\.go:\d+`
	h := shows()
	for want, f := range map[string]func(mux *handlers.Mux){
		`Handle: "GET /b/\{y\}" \(` + here + `\) conflicts with "GET /\{x\}/a" ` +
			`\(` + here + `\): both match`: func(mux *handlers.Mux) {
			mux.Handle("GET /{x}/a", h)
			mux.Handle("GET /b/{y}", h)
		},
		`Handle: "GET /b/\{y\}" \(` + here + `\) conflicts with ` +
			`"GET /b/\{x\}" \(`: func(mux *handlers.Mux) {
			mux.Handle("GET /b/{x}", h)
			mux.Group("/b").Handle("GET /{y}", h)
		},
		`Handle: "/\{" \(` + here + `\): "\{": a wildcard ends`: func(mux *handlers.Mux) {
			mux.Handle("/{", h)
		},
		`Handle: "/x" has no handler`: func(mux *handlers.Mux) {
			mux.Handle("/x", nil)
		},
		`Handle: "/g/x" has no handler`: func(mux *handlers.Mux) {
			mux.Group("/g").Handle("/x", nil)
		},
		`Handle: "x" \(` + here + `\): in a group with a prefix`: func(mux *handlers.Mux) {
			mux.Group("/g").Handle("x", h)
		},
		`Group \(` + here + `\): the prefix "g" does not begin`: func(mux *handlers.Mux) {
			mux.Group("g")
		},
		`Group \(` + here + `\): the prefix "h/" does not begin`: func(mux *handlers.Mux) {
			mux.Group("/g").Group("h/")
		},
		`Use \(` + here + `\): the middleware is nil`: func(mux *handlers.Mux) {
			mux.Use(nil)
		},
		`Use \(` + here + `\): the middleware is nil `: func(mux *handlers.Mux) {
			mux.Group("", nil)
		},
		`Use \(` + here + `\): the middleware has returned no handler`: func(mux *handlers.Mux) {
			mux.Use(func(conn.Handler) conn.Handler { return nil })
		},
		`Use \(` + here + `\): comes before the group's handlers, and there is one already ` +
			`\(` + here + `\)`: func(mux *handlers.Mux) {
			g := mux.Group("/g")
			g.Handle("/x", h)
			g.Use(notes("late"))
		},
	} {
		if ok, text := registers(func() { f(handlers.NewMux()) }); ok ||
			!regexp.MustCompile("^lwango: "+strings.TrimSuffix(want, " ")).MatchString(text) {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// Patterns may come while requests are served.
func TestHandleWhileServing(t *testing.T) {
	mux := handlers.NewMux()
	s := server.Start(t, modes.Several, conn.Config{Handler: mux.Serve})
	c := s.Dial()
	for i := range 50 {
		get := fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i)
		if a := c.Do("GET", get); a.StatusCode != 404 {
			t.Fatal(a.Status)
		}
		mux.Handle(fmt.Sprintf("/%d", i), shows())
		if a := c.Do("GET", get); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
	}
}

// TestPatternsBesideRoutes: the longer one answers.
func TestPatternsBesideRoutes(t *testing.T) {
	mux := handlers.NewMux()
	for _, p := range []string{"GET /items/{id}", "/tree/{$}", "GET /{page}", "a.example/w/{x...}"} {
		mux.Handle(p, shows())
	}
	named := func(name string) handlers.Route {
		return handlers.Route{Prefix: name, Handler: func(req *conn.Request, resp *conn.Response) int {
			fmt.Fprint(resp, req.Pattern(), "route ", req.Prefix())
			if req.Path() == "/again" && req.Layer().Rewrite("/items/8") == nil {
				return handlers.Again
			}
			return 200
		}}
	}
	start := func(routes ...handlers.Route) *server.Server {
		r := must.Get(handlers.NewRouter([]handlers.Site{{Routes: routes, Patterns: mux}}))(t)
		site, at, pattern := r.Lookup("", false, "GET", "a", "/items/7", "/items/7")
		if site != 0 || at != -1 || pattern != "GET /items/{id}" {
			t.Errorf("Lookup: %d, %d, %q", site, at, pattern)
		}
		return server.Start(t, modes.Direct, conn.Config{Handler: r.Serve})
	}
	with := start(named("/"), named("/items/7/x"), named("/w/y"), named("/again"))
	without := start()
	for _, c := range []struct{ line, with, without string }{
		{"GET /items/7", "200 GET /items/{id}|/items|/7", "200 GET /items/{id}|/items|/7"},
		{"POST /items/7", "200 route ", "405 "},
		{"GET /items/7/x", "200 route /items/7/x", "404 "},
		{"GET /items/7/y", "200 route ", "404 "},
		{"GET /tree", "200 GET /{page}||/tree", "200 GET /{page}||/tree"},
		{"POST /tree", "307 ", "307 "},
		{"GET /x//y", "200 route ", "404 "},
		{"GET //x", "307 ", "307 "},
		{"GET /w/y", "200 route /w/y", "404 "},
		{"GET http://a.example/w/y", "200 a.example/w/{x...}|/w|/y", "200 a.example/w/{x...}|/w|/y"},
		{"GET /again", "200 route /againGET /items/{id}|/items|/8", "200 GET /{page}||/again"},
	} {
		for _, side := range []struct {
			s    *server.Server
			want string
		}{{with, c.with}, {without, c.without}} {
			a := side.s.Request(c.line, nil, "")
			if a.StatusCode >= 400 {
				a.Text = ""
			}
			if got := a.Status[:4] + a.Text; got != side.want {
				t.Errorf("%s: got %s, want %s", c.line, got, side.want)
			}
		}
	}
}

// of200 makes a Mux with 200 patterns, one of which is GET /items/{id}/parts/{part}.
func of200(h conn.Handler) *handlers.Mux {
	mux := handlers.NewMux()
	for i := range 49 {
		mux.Handle(fmt.Sprintf("GET /kind%d", i), h)
		mux.Handle(fmt.Sprintf("POST /kind%d", i), h)
		mux.Handle(fmt.Sprintf("GET /kind%d/{id}", i), h)
		mux.Handle(fmt.Sprintf("GET /kind%d/{id}/parts/{part}", i), h)
	}
	mux.Handle("GET /items/{id}", h)
	mux.Handle("GET /items/{id}/parts/{part}", h)
	mux.Handle("GET /items/{id}/parts/none", h)
	mux.Handle("GET /{$}", h)
	return mux
}

var length int // of values, so that they are used

func twoValues(req *conn.Request, resp *conn.Response) int {
	length = len(req.PathValue("id")) + len(req.PathValue("part"))
	return hello(req, resp)
}

func hello(_ *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
	resp.WriteString("Hello, world!")
	return 200
}

// A request that passes 200 patterns, three layers, and asks for two values allocates nothing; nor
// does one that is plain "/" beside them.
func TestMuxAllocations(t *testing.T) {
	through := func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int { return next(req, resp) }
	}
	mux := of200(twoValues)
	mux.Use(through, through)
	mux.Group("/group/{x}", through).Handle("/", hello)
	mux.Group("/", through).Handle("/", hello)
	s := server.Start(t, modes.Direct, conn.Config{Handler: mux.Serve})
	const head = " HTTP/1.1\r\nHost: test.example\r\nUser-Agent: test\r\n\r\n"
	for _, path := range []string{"/items/4711/parts/12", "/", "/other/path", "/group/7/x"} {
		if n := s.Allocs("GET " + path + head); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// BenchmarkMux compares hello with hello at one of 200 patterns, of which the handler asks for two
// values. A system call of either side is shared by many requests, and the client looks at nothing
// but the length of answers.
func BenchmarkMux(b *testing.B) {
	const request = "GET /items/4711/parts/12 HTTP/1.1\r\n" +
		"Host: test.example\r\nUser-Agent: test\r\n\r\n"
	const pipelined = 64
	batch := strings.Repeat(request, pipelined)
	for _, c := range []struct {
		name string
		h    conn.Handler
	}{{"hello", hello}, {"two values", of200(twoValues).Serve}} {
		b.Run(c.name, func(b *testing.B) {
			s := server.Start(b, modes.Direct, conn.Config{Handler: c.h})
			client := s.Dial()
			client.Send(request)
			size := len("Hello, world!")
			for line := ""; line != "\r\n"; size += len(line) {
				var err error
				if line, err = client.R.ReadString('\n'); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := client.R.Discard(len("Hello, world!")); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += pipelined {
				client.Send(batch)
				if _, err := client.R.Discard(size * pipelined); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
