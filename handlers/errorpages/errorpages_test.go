package errorpages_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/errorpages"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

// long does not fit in what a response gathers, so its head goes out before its handler returns.
var long = strings.Repeat("a long page\n", 10_000)

// start serves a site with error pages, and returns the folder of its configuration.
func start(t *testing.T, m modes.Mode,
	pages map[string]string) (*server.Server, string, *logtext.Buffer) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"errors/404.html": "<h1>nothing here</h1>", "errors/403.txt": "", "www/index.html": "home",
		"www/errors/gone.html": "gone for ever",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	log := new(logtext.Buffer)
	env := handlers.Env{Dir: dir, Prefix: "/", Logger: slog.New(slog.NewTextHandler(log, nil))}
	p, err := errorpages.New(pages, env)
	must.Do(t, err)
	files := servefiles.Defaults
	files.Path, files.CacheControl = "www", "immutable"
	serve, err := servefiles.New(files, env)
	must.Do(t, err)
	answers := map[string]conn.Handler{
		"/panic": func(*conn.Request, *conn.Response) int { panic("a test") },
		"/own": func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("the handler's own")
			return 404
		},
		"/auth": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("WWW-Authenticate", "Basic")
			return 401
		},
		"/relayed": func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(404, "Nope")
			return 404
		},
		"/dropped": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Type", "text/x-app")
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteString("the application's")
			w.Layer().Relay(404, "Nope")
			w.Layer().DropBody()
			return 404
		},
		"/set": func(_ *conn.Request, w *conn.Response) int { w.SetStatus(410); return 0 },
		"/page": func(req *conn.Request, w *conn.Response) int {
			w.WriteString(req.Method() + " " + req.Path() + "?" + req.RawQuery() + " " +
				req.Header().Get("Range") + req.Header().Get("X"))
			return 200
		},
		"/long": func(req *conn.Request, w *conn.Response) int {
			w.WriteString(long)
			return 200
		},
		"/broken": func(*conn.Request, *conn.Response) int { panic("a page") },
		"/401":    func(*conn.Request, *conn.Response) int { return 401 },
		"/402":    func(*conn.Request, *conn.Response) int { return 402 },
		"/405":    func(*conn.Request, *conn.Response) int { return 405 },
		"/406":    func(*conn.Request, *conn.Response) int { return 406 },
		"/408":    func(*conn.Request, *conn.Response) int { return 408 },
		"/413": func(req *conn.Request, _ *conn.Response) int {
			req.Body().SetLimit(1)
			_, _ = io.ReadAll(req.Body())
			return 200
		},
	}
	routes := []handlers.Route{{Prefix: "/", Handler: serve}}
	for prefix, h := range answers {
		routes = append(routes, handlers.Route{Prefix: prefix, Handler: h})
	}
	router, err := handlers.NewRouter([]handlers.Site{{Routes: routes,
		Around: func(next conn.Handler) conn.Handler { return p.Outer(p.Inner(next)) }}})
	must.Do(t, err)
	return server.Start(t, m, conn.Config{Handler: router.Serve, Logger: env.Logger}), dir, log
}

func TestPages(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s, _, log := start(t, m, map[string]string{
			"404": "errors/404.html", "401": "/page", "402": "/long", "405": "/broken", "406": "/406",
			"408": "errors/none.html", "410": "/errors/gone.html", "500": "/page/",
		})
		s.Panics.Expect()
		for _, c := range []struct {
			ask    string
			status int
			body   string // "" the built-in page
			fields string
		}{
			{"GET /", 200, "home", "Cache-Control: immutable"},
			{"GET /none", 404, "<h1>nothing here</h1>", "Content-Type: text/html; charset=utf-8"},
			{"GET /relayed", 404, "-", ""},
			{"GET /own", 404, "the handler's own", ""},
			{"GET /dropped", 404, "<h1>nothing here</h1>", "Set-Cookie: a=b"},
			{"GET /set", 410, "gone for ever", ""},
			{"POST /", 405, "", "Allow: GET, HEAD, OPTIONS"},
			{"GET /auth?a=b", 401, "GET /page? yes", "WWW-Authenticate: Basic"},
			{"POST /auth", 401, "GET /page? yes", "WWW-Authenticate: Basic"},
			{"GET /402", 402, long, ""},
			{"GET /405", 405, "", ""},
			{"GET /406", 406, "", ""},
			{"GET /408", 408, "", ""},
			{"GET /408", 408, "", ""},
			{"GET /panic", 500, "GET /page/? yes", "Connection: close"},
		} {
			got := s.Request(c.ask, []string{"Range: bytes=0-1", "If-None-Match: *", "X: yes"}[:3], "")
			if c.ask == "GET /" {
				got = s.Request(c.ask, nil, "")
			}
			want := c.body
			switch want {
			case "":
				want = "<h1>"
				if !strings.Contains(got.Text, "<!doctype html>") {
					t.Errorf("%s: not the built-in page: %q", c.ask, got.Text)
				}
			case "-":
				want = ""
			}
			name, value, _ := strings.Cut(c.fields, ": ")
			if name == "Connection" {
				name = ""
			}
			if got.StatusCode != c.status || !strings.Contains(got.Text, want) ||
				c.body != "" && got.Text != want || name != "" && got.Header.Get(name) != value {
				t.Errorf("%s: %d, %.100q, %v", c.ask, got.StatusCode, got.Text, got.Header)
			}
			for _, name := range []string{"ETag", "Last-Modified", "Accept-Ranges", "Cache-Control"} {
				if c.status >= 400 && got.Header.Get(name) != "" {
					t.Errorf("%s: %s: %s", c.ask, name, got.Header.Get(name))
				}
			}
			head := s.Request("HEAD"+strings.TrimLeft(c.ask, "GETPOS"), nil, "")
			if strings.HasPrefix(c.ask, "GET") && c.status != 402 && (head.StatusCode != c.status ||
				head.Text != "" && !strings.HasPrefix(c.ask, "GET /own")) {
				t.Errorf("HEAD of %s: %d, %q", c.ask, head.StatusCode, head.Text)
			}
		}
		if n := strings.Count(log.String(), "none.html"); n != 1 {
			t.Errorf("the missing page was logged %d times:\n%s", n, log)
		}
	}, modes.Plain, modes.Direct)
}

// TestPageStatus: a page may have a status of its own, whatever is asked for, and only if it is
// made.
func TestPageStatus(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s, _, _ := start(t, m, map[string]string{
			"404": "=200 errors/404.html", "401": "=418  /page", "402": "=503 /long", "405": "=200 /broken",
			"406": "=200 /406", "408": "=200 errors/none.html", "410": "=404 /errors/gone.html",
			"413": "=200 /page",
		})
		s.Panics.Expect()
		for _, c := range []struct {
			ask    string
			status int
			body   string // "" the built-in page
		}{
			{"GET /none", 200, "<h1>nothing here</h1>"},
			{"GET /own", 404, "the handler's own"},
			{"GET /set", 404, "gone for ever"},
			{"GET /401", 418, "GET /page? yes"},
			{"GET /402", 503, long},
			{"GET /405", 405, ""},
			{"GET /406", 406, ""},
			{"GET /408", 408, ""},
			{"POST /413", 200, "GET /page? "},
		} {
			length, body := "X: yes", ""
			if strings.HasPrefix(c.ask, "POST") {
				length, body = "Content-Length: 9", "too large"
			}
			got := s.Request(c.ask, []string{"Range: bytes=0-1", "If-None-Match: *", length}, body)
			if got.StatusCode != c.status || c.body != "" && got.Text != c.body ||
				c.body == "" && !strings.Contains(got.Text, "<!doctype html>") {
				t.Errorf("%s: %d, %.100q", c.ask, got.StatusCode, got.Text)
			}
		}
	}, modes.Plain, modes.Direct, modes.HTTP2)
	for _, text := range []string{"=204 /a", "=199 /a", "=600 /a", "= /a", "=200"} {
		if _, err := errorpages.New(map[string]string{"404": text},
			handlers.Env{Dir: t.TempDir(), Prefix: "/"}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestFieldsOfBoth: an answer keeps its fields, with all their values, and its page adds others,
// whether the page is sent whole or streamed.
func TestFieldsOfBoth(t *testing.T) {
	said := []string{"Vary: Cookie", "Vary: Accept", "WWW-Authenticate: Basic", "Set-Cookie: a=b",
		"WWW-Authenticate: Bearer", "Cache-Control: private", "Cache-Control: no-store"}
	ofBody := []string{"Content-Encoding: x", "ETag: \"a\""}
	page := []string{"Vary: Accept-Encoding", "Vary: Accept", "WWW-Authenticate: Digest",
		"Set-Cookie: c=d", "Cache-Control: max-age=5", "Expires: 0", "X-Page: yes",
		"Content-Type: text/x-page", "ETag: \"b\"", "Last-Modified: now"}
	want := http.Header{"Vary": {"Cookie", "Accept", "Accept-Encoding"},
		"Www-Authenticate": {"Basic", "Bearer"}, "Set-Cookie": {"a=b", "c=d"},
		"Cache-Control": {"private", "no-store"}, "X-Page": {"yes"}, "Content-Type": {"text/x-page"}}
	set := func(w *conn.Response, fields []string) {
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			w.Header().Add(name, value)
		}
	}
	p, err := errorpages.New(map[string]string{"401": "/whole", "403": "/streamed", "404": "/failed"},
		handlers.Env{Prefix: "/"})
	must.Do(t, err)
	h := p.Outer(p.Inner(func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/" {
			set(w, said)
			if req.RawQuery() != "status=404" {
				set(w, ofBody)
			}
			return int(req.Query().Get("status")[2]-'0') + 400
		}
		set(w, page)
		if req.Path() == "/failed" {
			w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, _ int) { set(w, page) })
			return 500
		}
		w.WriteString("a page")
		if req.Path() == "/streamed" {
			w.Flush()
		}
		return 200
	}))
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Handler: h})
		for _, status := range []string{"401", "403", "404"} {
			a := s.Request("GET /?status="+status, nil, "")
			for _, name := range []string{"Date", "Server", "Content-Length", "Connection", "X-Request-Id"} {
				a.Header.Del(name)
			}
			want := want
			if status == "404" { // the built-in page
				want = maps.Clone(want)
				want["Vary"], want["Set-Cookie"] = []string{"Cookie", "Accept"}, []string{"a=b"}
				want["Content-Type"] = []string{"text/html; charset=utf-8"}
				delete(want, "X-Page")
			}
			if fmt.Sprint(a.StatusCode) != status || !maps.EqualFunc(a.Header, want, slices.Equal) {
				t.Errorf("%s: %s\n%v, want\n%v", status, a.Status, a.Header, want)
			}
		}
	}, modes.Plain, modes.Direct)
}

// A page is seen again once it is there.
func TestPageComesBack(t *testing.T) {
	s, dir, log := start(t, modes.Direct, map[string]string{"404": "errors/new.html"})
	ask := func() string { return s.Request("GET /none", nil, "").Text }
	if !strings.Contains(ask(), "404 Not Found") {
		t.Error("not the built-in page")
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "errors/new.html"), []byte("new"), 0o644))
	if got := ask(); got != "new" {
		t.Errorf("%q", got)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "errors/new.html")))
	ask()
	ask()
	if n := strings.Count(log.String(), "page missing"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, log)
	}
}

func TestBadSettings(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for _, c := range []struct{ prefix, status, page, want string }{
		{"/", "404", "404.html", ""},
		{"/", "404", "sub/../404.html", ""},
		{"/", "599", "/a", ""},
		{"/app", "404", "/app/a", ""},
		{"/", "40", "/a", `error_pages: expected a status from 400 to 599, not "40"`},
		{"/", "0404", "/a", `error_pages: expected a status from 400 to 599, not "0404"`},
		{"/", "302", "/a", `error_pages: expected a status from 400 to 599, not "302"`},
		{"/", "x", "/a", `error_pages: expected a status from 400 to 599, not "x"`},
		{"/", "404", "", `error_pages: 404: expected a file, or the path of a route, which begins ` +
			`with a slash, not ""`},
		{"/", "404", "sub/", `error_pages: 404: expected a file, or the path of a route, which ` +
			`begins with a slash, not "sub/"`},
		{"/", "404", "/a?b", `error_pages: 404: expected the path of a route, without a query, not ` +
			`"/a?b"`},
		{"/", "404", "/../a", `error_pages: 404: expected the path of a route, without a query, not ` +
			`"/../a"`},
		{"/app", "404", "/application", `error_pages: 404: expected a path below the route's prefix, ` +
			`/app, or a file, not "/application"`},
		{"/", "404", "none/404.html", `error_pages: 404: cannot open the folder "` + dir +
			`/none": no such file or directory`},
	} {
		_, err := errorpages.New(map[string]string{c.status: c.page},
			handlers.Env{Dir: dir, Prefix: c.prefix})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s = %q: got %s\nwant %s", c.status, c.page, got, c.want)
		}
	}
}
