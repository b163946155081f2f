package rules_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/template"
)

// known is how an error lists the placeholders.
var known = "(known: " + template.List(placeholder.Names) + ")"

// answer tells what a module sees.
func answer(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("X-From", "module")
	resp.Header().Set("Expires", "0")
	fmt.Fprintf(resp, "%s %s", req.Prefix()+"|"+req.SubPath(), req.RawQuery())
	switch req.Path() {
	case "/teapot":
		return 418
	case "/panic":
		panic("a test")
	}
	return 200
}

// compile makes rules that have to be right.
func compile(t testing.TB, prefix string, env handlers.Env, all ...rules.Rule) handlers.Middleware {
	t.Helper()
	env.Prefix = prefix
	for i := range all {
		if all[i].Name == "" {
			all[i].Name = fmt.Sprintf("rule %d", i+1)
		}
	}
	set := must.Get(rules.Compile(all, "", env))(t)
	return set.Middleware()
}

// start serves a site with rules of its own, and routes with theirs.
func start(t testing.TB, env handlers.Env, site []rules.Rule,
	routes map[string][]rules.Rule) *server.Server {
	t.Helper()
	s := handlers.Site{}
	if len(site) > 0 {
		s.Around = compile(t, "", env, site...)
	}
	for prefix, all := range routes {
		h := conn.Handler(answer)
		if len(all) > 0 {
			h = compile(t, prefix, env, all...)(h)
		}
		s.Routes = append(s.Routes, handlers.Route{Prefix: prefix, Handler: h})
	}
	router := must.Get(handlers.NewRouter([]handlers.Site{s}))(t)
	return server.Start(t, modes.Direct, conn.Config{Handler: router.Serve})
}

func rule(change func(*rules.Settings)) rules.Rule {
	var s rules.Settings
	change(&s)
	return rules.Rule{Settings: s}
}

// TestConditions: each condition, with each way to be true and not to be, denies.
func TestConditions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "x", "sub/b.txt": "x", ".hidden": "x"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must.Write(t, filepath.Join(dir, name), text)
	}
	for link, to := range map[string]string{"out": "/etc/passwd", "in": "sub/b.txt", "up": "../..",
		"circle": "circle"} {
		must.Do(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	type lines []string
	for _, c := range []struct {
		name   string
		change func(*rules.Settings)
		yes    lines // request lines, with header lines behind "|"
		no     lines
	}{
		{"path", func(s *rules.Settings) { s.Path = []string{"*.sql", "/data/**"} },
			lines{"GET /a.sql", "GET /%61.s%71l", "GET /x/../a.sql", "GET //a.sql", "GET /data/x",
				"GET /%64ata/", "GET /x%2f..%2fdata%2Fx"},
			lines{"GET /a.SQL", "GET /datax", "GET /?/data/x", "GET /x?a.sql"}},
		{"regexp", func(s *rules.Settings) { s.Regexp = `^/[0-9]+\.html$` },
			lines{"GET /12.html", "GET /1%32.html", "GET /%2e/1.html"},
			lines{"GET /a.html", "GET /x/1.html", "GET /1.html/"}},
		{"method", func(s *rules.Settings) { s.Method = []string{"POST", "PUT"} },
			lines{"POST /", "PUT /", "post /", "Post /"}, lines{"GET /", "HEAD /", "posts /"}},
		{"not a method", func(s *rules.Settings) { s.Not.Method = []string{"GET", "HEAD"} },
			lines{"POST /", "get /", "Head /"}, lines{"GET /", "HEAD /"}},
		{"host", func(s *rules.Settings) { s.Host = []string{"a.test", "*.b.test", "::1"} },
			lines{"GET http://a.test/", "GET http://A.TEST.:80/", "GET http://x.b.test/",
				"GET http://[::1]:1/"},
			lines{"GET /", "GET http://b.test/", "GET http://xa.test/"}},
		{"scheme", func(s *rules.Settings) { s.Scheme = "http" }, lines{"GET /"}, nil},
		{"other scheme", func(s *rules.Settings) { s.Scheme = "https" }, nil, lines{"GET /"}},
		{"client", func(s *rules.Settings) { s.Client = []string{"10.0.0.0/8", "127.0.0.0/8"} },
			lines{"GET /"}, nil},
		{"other client", func(s *rules.Settings) { s.Client = []string{"10.0.0.0/8", "::1"} }, nil,
			lines{"GET /"}},
		{"client of a UNIX socket", func(s *rules.Settings) { s.Client = []string{"unix:"} }, nil,
			lines{"GET /"}},
		{"header", func(s *rules.Settings) { s.Header = map[string][]string{"X-a": {"b*", "~^[0-9]+$"}} },
			lines{"GET /|X-A: b", "GET /|X-A: c|x-a: bc", "GET /|X-A: 12"},
			lines{"GET /", "GET /|X-A: cb", "GET /|X-B: b", "GET /|X-A: 12a"}},
		{"two headers", func(s *rules.Settings) {
			s.Header = map[string][]string{"A": {"*"}, "B": {"?"}}
		},
			lines{"GET /|A:|B: 1"}, lines{"GET /|A: 1", "GET /|B: 1", "GET /|A: 1|B: 12"}},
		{"cookie", func(s *rules.Settings) { s.Cookie = map[string][]string{"s": {"x*"}} },
			lines{"GET /|Cookie: s=x", "GET /|Cookie: a=b; s=xy; c", `GET /|Cookie: s="x"`,
				"GET /|Cookie: a=b|Cookie: s=x", "GET /|Cookie: s=y; s=x"},
			lines{"GET /", "GET /|Cookie: s", "GET /|Cookie: ss=x", "GET /|Cookie: S=x",
				"GET /|Cookie: s=y"}},
		{"query", func(s *rules.Settings) { s.Query = map[string][]string{"a b": {"x/*", ""}} },
			lines{"GET /?a+b=x/1", "GET /?a+b=x/%zz%", "GET /?a%20b=%78/%2", "GET /?c&a%20b=x%2F",
				"GET /?a+b", "GET /?a+b=y&a+b=",
				"GET /?+a+b=x/", "GET /?%20+a+b=x/", "GET /?a+b%00=x/", "GET /?%20a%20b%00z=x/"},
			lines{"GET /", "GET /?a", "GET /?a+b=y", "GET /?a+b=%zz", "GET /?ab=x/", "GET /?%00a+b=x/",
				"GET /?a+b+=x/"}},
		{"exists", func(s *rules.Settings) { s.Exists, s.Root = []string{"file"}, dir },
			lines{"GET /a.txt", "GET /sub/b.txt", "GET /in", "GET /%61.txt"},
			lines{"GET /", "GET /sub", "GET /a.txt/", "GET /none", "GET /.hidden", "GET /out", "GET /up",
				"GET /circle", "GET /a.txt/x",
				"GET /" + strings.Repeat("x", 300)}},
		{"is a folder", func(s *rules.Settings) { s.Exists, s.Root = []string{"folder"}, dir },
			lines{"GET /", "GET /sub", "GET /sub/"},
			lines{"GET /a.txt", "GET /none", "GET /up/", "GET /out"}},
		{"is missing", func(s *rules.Settings) { s.Exists, s.Root = []string{"no"}, dir },
			lines{"GET /none", "GET /sub/none", "GET /.hidden", "GET /out", "GET /up", "GET /up/x",
				"GET /circle", "GET /a.txt/x"},
			lines{"GET /", "GET /a.txt", "GET /sub/", "GET /in"}},
		{"file or folder", func(s *rules.Settings) { s.Exists, s.Root = []string{"file", "folder"}, dir },
			lines{"GET /", "GET /a.txt"}, lines{"GET /none"}},
		{"not", func(s *rules.Settings) {
			s.Path = []string{"/a/**"}
			s.Not = rules.Conditions{Path: []string{"*.css"}, Method: []string{"PUT"}}
		}, lines{"GET /a/x"}, lines{"GET /a/x.css", "PUT /a/x", "GET /b"}},
		{"all must hold", func(s *rules.Settings) {
			s.Path, s.Regexp, s.Method = []string{"/a/**"}, "x", []string{"GET"}
			s.Query = map[string][]string{"q": {"1"}}
		}, lines{"GET /a/x?q=1"}, lines{"GET /a/y?q=1", "POST /a/x?q=1", "GET /a/x?q=2", "GET /b/x?q=1"}},
		{"none", func(*rules.Settings) {}, lines{"GET /", "PUT /x"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, handlers.Env{}, []rules.Rule{rule(func(s *rules.Settings) {
				c.change(s)
				s.Deny = 410
			})}, map[string][]rules.Rule{"/": nil})
			for status, all := range map[int]lines{410: c.yes, 200: c.no} {
				for _, line := range all {
					parts := strings.Split(line, "|")
					fields := append([]string{"Content-Length: 0"}, parts[1:]...)
					if a := s.Request(parts[0], fields, ""); a.StatusCode != status {
						t.Errorf("%s: got %s, want %d", line, a.Status, status)
					}
				}
			}
		})
	}
}

// TestActions: what the rules of a site and of its routes do together.
func TestActions(t *testing.T) {
	log := new(logtext.Buffer)
	env := handlers.Env{Logger: slog.New(slog.NewTextHandler(log, nil))}
	site := []rules.Rule{
		rule(func(s *rules.Settings) { s.Path, s.Deny = []string{"/secret/**"}, 404 }),
		rule(func(s *rules.Settings) {
			s.Regexp, s.Rewrite = `^/page/(?<name>.+)$`, "/doku.php?id={name}"
		}),
		rule(func(s *rules.Settings) {
			s.Regexp, s.Rewrite = `^/p2/([^/]+)/(.*)$`, "/doku.php?id={2}&ns={1}{query}"
		}),
		rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/keep/*"}, "/kept{path}" }),
		rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/drop"}, "/dropped?" }),
		rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/all"}, "/all" }),
		rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/to-secret"}, "/secret/x" }),
		rule(func(s *rules.Settings) { s.Regexp, s.Rewrite = `^/dots(.*)$`, "/x/{1}/y" }),
		rule(func(s *rules.Settings) {
			s.Regexp, s.Redirect, s.Status = `^/old/(?<rest>.*)$`, "https://new.test/{rest}{query}", 308
		}),
		rule(func(s *rules.Settings) { s.Path, s.Redirect = []string{"/host"}, "https://{host}{uri}" }),
		rule(func(s *rules.Settings) {
			s.SetHeaders = map[string][]string{"X-One": {"site"}, "X-From": {"site"}}
			s.AddHeaders = map[string][]string{"Link": {"a"}}
		}),
		rule(func(s *rules.Settings) {
			s.Path, s.RemoveHeaders = []string{"/bare"}, []string{"x-from"}
		}),
		rule(func(s *rules.Settings) {
			s.SetHeaders = map[string][]string{"X-One": {"later"}, "X-Two": {"b", "a"}}
		}),
		rule(func(s *rules.Settings) { s.Path, s.CacheControl = []string{"*.css"}, "max-age=60" }),
		rule(func(s *rules.Settings) {
			s.Path, s.Deny = []string{"/denied.css"}, 451
			s.SetHeaders = map[string][]string{"X-Why": {"law"}}
		}),
	}
	s := start(t, env, site, map[string][]rules.Rule{
		"/": {rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/enter"}, "/loop/0" }),
			rule(func(s *rules.Settings) {
				s.AddHeaders = map[string][]string{"X-Seen": {"root"}}
			}),
			rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/leave"}, "/app/x?y=1" }),
			rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/again"}, "/" }),
		},
		"/loop": {rule(func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/loop/(.*)$", "/loop/x{1}" })},
		"/app": {rule(func(s *rules.Settings) {
			s.Path, s.Rewrite = []string{"/app/a/**"}, "/app/b{path}"
		})},
		"/same": {rule(func(s *rules.Settings) { s.Rewrite = "/same/index.php" })},
	})
	s.Panics.Expect()
	for _, c := range []struct{ line, want string }{
		{"GET /secret/x", "404"},
		{"GET /%73ecret", "404"},
		{"GET /page/a/b:c%20d&e=f%3f", "200 |/doku.php id=a/b:c%20d%26e%3Df%3F"},
		{"GET /page/x?lost=1", "200 |/doku.php id=x"},
		{"GET /page/", "200 |/page/ "},
		{"GET /p2/a/b?c=%41", "200 |/doku.php id=b&ns=a&c=%41"},
		{"GET /keep/%c3%a9%3f?q=1", "200 |/kept/keep/é? q=1"},
		{"GET /drop?q=1", "200 |/dropped "},
		{"GET /all?q=1", "200 |/all q=1"},
		{"GET /to-secret", "200 |/secret/x "},
		{"GET /dots", "200 |/x/y "},
		{"GET /dots..", "400"}, // and not /y, where no rule has looked
		{"GET /dots%2e.", "400"},
		{"GET /dots%252e.", "200 |/x/%2e./y "},
		{"GET /dots../secret/x", "400"},
		{"GET /dots...", "200 |/x/.../y "},
		{"GET /old/a%20b?q=%20", "308 https://new.test/a%20b?q=%20"},
		{"GET /old//evil.test", "308 https://new.test/evil.test"},
		{"GET /host", "302 https://test.example/host"},
		{"GET /enter", "500"},
		{"GET /leave", "200 /app|/x y=1"},
		{"GET /app/a/z", "200 /app|/b/a/z "},
		{"GET /same/z?q", "200 /same|/index.php q"},
		{"GET /again", "200 |/ "},
	} {
		a := s.Request(c.line, nil, "")
		got := fmt.Sprint(a.StatusCode)
		if l := a.Header.Get("Location"); l != "" {
			got += " " + l
		} else if a.StatusCode == 200 {
			got += " " + a.Text
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
	if n := strings.Count(log.String(), "rewritten without end"); n != 1 ||
		!strings.Contains(log.String(), `rule="rule 1" target=/enter path=/loop/xxxxxxxxx0`) {
		t.Errorf("log: %s", log.String())
	}

	for _, c := range []struct {
		line string
		want map[string]string
	}{
		{"GET /", map[string]string{"X-One": "site", "X-Two": "b,a", "X-From": "site", "Link": "a",
			"X-Seen": "root", "Expires": "0", "Cache-Control": ""}},
		{"GET /bare", map[string]string{"X-One": "site", "X-From": "site"}},
		{"GET /a.css", map[string]string{"Cache-Control": "max-age=60", "Expires": ""}},
		{"GET /teapot", map[string]string{"X-One": "site", "X-Two": "b,a"}},
		{"GET /panic", map[string]string{"X-One": "site", "X-Two": "b,a"}},
		{"GET /denied.css", map[string]string{"X-One": "site", "X-Why": "law", "Cache-Control": ""}},
		{"GET /leave", map[string]string{"X-One": "site", "Link": "a", "X-Seen": ""}},
		{"GET /again", map[string]string{"X-Seen": "root", "Link": "a"}},
		{"GET /old/x", map[string]string{"X-One": ""}},
	} {
		a := s.Request(c.line, nil, "")
		for name, want := range c.want {
			if got := strings.Join(a.Header.Values(name), ","); got != want {
				t.Errorf("%s: %s: got %q, want %q", c.line, name, got, want)
			}
		}
	}
}

// TestAround: a rule may wrap what comes behind it, and rules before it have done their part.
func TestAround(t *testing.T) {
	guard := func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if _, ok := req.Layer().HeaderView("Key"); !ok {
				return 401
			}
			return next(req, resp)
		}
	}
	private := rule(func(s *rules.Settings) { s.Path = []string{"/private/**"} })
	private.Around = guard
	s := start(t, handlers.Env{}, nil, map[string][]rules.Rule{
		"/": {
			rule(func(s *rules.Settings) { s.SetHeaders = map[string][]string{"X-A": {"1"}} }),
			private,
			rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/private/old"}, "/other/new" }),
		},
		"/other": nil,
	})
	for _, c := range []struct {
		line, field, want string
	}{
		{"GET /x", "A: b", "200 |/x  1"},
		{"GET /private/x", "A: b", "401  1"},
		{"GET /private/x", "Key: b", "200 |/private/x  1"},
		{"GET /private/old", "A: b", "401  1"},
		{"GET /private/old", "Key: b", "200 /other|/new  "},
	} {
		a := s.Request(c.line, []string{c.field}, "")
		text := a.Text
		if a.StatusCode != 200 {
			text = ""
		}
		if got := fmt.Sprintf("%d %s %s", a.StatusCode, text, a.Header.Get("X-A")); got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.line, c.field, got, c.want)
		}
	}
}

// TestHostInPath: a host has no meaning of its own in a path, and adds no parameter to a query.
func TestHostInPath(t *testing.T) {
	s := start(t, handlers.Env{}, []rules.Rule{
		rule(func(s *rules.Settings) { s.Rewrite = "/vhosts/{host}{path}?h={host}" }),
	}, map[string][]rules.Rule{"/": nil})
	for host, want := range map[string]string{
		"a.test:80":       "|/vhosts/a.test/x h=a.test",
		"a&admin=1":       "|/vhosts/a&admin=1/x h=a%26admin%3D1",
		"[2001:db8::1]:1": "|/vhosts/[2001:db8::1]/x h=%5B2001:db8::1%5D",
	} {
		c := s.Dial()
		c.Send("GET /x HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != want {
			t.Errorf("%s: %s, %q, want %q", host, a.Status, a.Text, want)
		}
	}
}

// TestWithoutHost: {host} of a request of HTTP/1.0 without one.
func TestWithoutHost(t *testing.T) {
	s := start(t, handlers.Env{}, []rules.Rule{
		rule(func(s *rules.Settings) { s.Path, s.Redirect = []string{"/r"}, "https://{host}/" }),
		rule(func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/w"}, "/{host}/x" }),
	}, map[string][]rules.Rule{"/": nil})
	for wire, want := range map[string]int{
		"GET /r HTTP/1.0\r\n\r\n": 400, "GET /w HTTP/1.0\r\n\r\n": 400,
		"GET /w HTTP/1.0\r\nHost: ..\r\n\r\n": 400, "GET /w HTTP/1.0\r\nHost: a\r\n\r\n": 200,
	} {
		c := s.Dial()
		c.Send(wire)
		if a := c.Answer("GET"); a.StatusCode != want {
			t.Errorf("%q: got %s, want %d", wire, a.Status, want)
		}
	}
}

// TestNoAnswer: a rule that denies with 444 closes the connection.
func TestNoAnswer(t *testing.T) {
	s := start(t, handlers.Env{}, []rules.Rule{
		rule(func(s *rules.Settings) { s.Path, s.Deny = []string{"/scan"}, 444 }),
	}, map[string][]rules.Rule{"/": nil})
	if got := s.Exchange("GET /scan HTTP/1.1\r\nHost: a\r\n\r\n"); got != "" {
		t.Errorf("%q", got)
	}
	if got := s.Request("GET /", nil, ""); got.StatusCode != 200 {
		t.Error(got.Status)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for want, change := range map[string]func(*rules.Settings){
		"rule 2: : does nothing: expected deny, rewrite, redirect, auth, limit, set_headers, add_headers, remove_headers or cache_control": func(s *rules.Settings) { s.Deny = 0 },
		"rule 2: : a rule has deny, rewrite or redirect, not several of them":                                                              func(s *rules.Settings) { s.Rewrite = "/" },
		"rule 2: deny: expected a status of an error, 400 to 599, not 200":                                                                 func(s *rules.Settings) { s.Deny = 200 },
		"rule 2: status: is for redirect, which this rule does not have":                                                                   func(s *rules.Settings) { s.Status = 301 },
		"rule 2: status: expected 300, 301, 302, 303, 307 or 308, not 304":                                                                 func(s *rules.Settings) { s.Deny, s.Redirect, s.Status = 0, "/", 304 },
		`rule 2: rewrite: "/{name}": unknown placeholder {name} ` + known:                                                                  func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "/{name}" },
		`rule 2: rewrite: "/{b}": unknown placeholder {b} (known: {a}, {2}, ` + known[len("(known: "):]: func(s *rules.Settings) {
			s.Deny, s.Rewrite, s.Regexp = 0, "/{b}", "(?<a>x)(y)"
		},
		`rule 2: rewrite: "x": expected a path that begins with a slash`:                                                    func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "x" },
		`rule 2: rewrite: "//x": a path of the same site begins with one slash`:                                             func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "//x" },
		`rule 2: rewrite: "/a/../x": not a path, or one with dot segments`:                                                  func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "/a/../x" },
		`rule 2: rewrite: "/%zz": not a path, or one with dot segments`:                                                     func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "/%zz" },
		`rule 2: rewrite: "/a#b": a request has no #fragment`:                                                               func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "/a#b" },
		`rule 2: rewrite: "/$1": unknown placeholder $1 (known: {path}, {uri}, {query}, {host}; a $ itself is written %24)`: func(s *rules.Settings) { s.Deny, s.Rewrite = 0, "/$1" },
		`rule 2: redirect: "https://{1}/": the path of a request would name the server`:                                     func(s *rules.Settings) { s.Deny, s.Redirect, s.Regexp = 0, "https://{1}/", "(.*)" },
		`rule 2: redirect: "{1}://x/": a request would name the scheme`:                                                     func(s *rules.Settings) { s.Deny, s.Redirect, s.Regexp = 0, "{1}://x/", "(.*)" },
		`rule 2: redirect: "https://{1}@x/": the path of a request would name the server`:                                   func(s *rules.Settings) { s.Deny, s.Redirect, s.Regexp = 0, "https://{1}@x/", "(.*)" },
		"rule 2: regexp: missing closing ): `(`":                                                                            func(s *rules.Settings) { s.Regexp = "(" },
		"rule 2: not.regexp: missing closing ): `(`":                                                                        func(s *rules.Settings) { s.Not.Regexp = "(" },
		`rule 2: not.path: "a/b": a pattern with a slash in it begins with one (/a/b), or with "/**/" for any folder`:       func(s *rules.Settings) { s.Not.Path = []string{"a/b"} },
		`rule 2: method: expected a method in upper case, such as GET, not "get"`:                                           func(s *rules.Settings) { s.Method = []string{"get"} },
		`rule 2: host: "a:80": a host is named without its port`:                                                            func(s *rules.Settings) { s.Host = []string{"a:80"} },
		`rule 2: header: "a b" is not a name of a header`:                                                                   func(s *rules.Settings) { s.Header = map[string][]string{"a b": {"*"}} },
		"rule 2: cookie.a: missing closing ): `(`":                                                                          func(s *rules.Settings) { s.Cookie = map[string][]string{"a": {"~("}} },
		`rule 2: query.a: expected a pattern, such as "*"`:                                                                  func(s *rules.Settings) { s.Query = map[string][]string{"a": {}} },
		"rule 2: root: missing: the folder in which `exists` looks":                                                         func(s *rules.Settings) { s.Exists = []string{"no"} },
		"rule 2: root: is for `exists`, which this rule does not have":                                                      func(s *rules.Settings) { s.Root = dir },
		"rule 2: root: open " + dir +
			"/none: no such file or directory": func(s *rules.Settings) {
			s.Exists, s.Root = []string{"no"}, dir+"/none"
		},
		"rule 2: set_headers.Content-Length: is set by the server itself": func(
			s *rules.Settings) {
			s.SetHeaders = map[string][]string{"Content-Length": {"1"}}
		},
		"rule 2: add_headers.A: control characters cannot be part of a header field": func(
			s *rules.Settings) {
			s.AddHeaders = map[string][]string{"A": {"\n"}}
		},
		`rule 2: add_headers.A: "{pith}": unknown placeholder {pith} ` + known: func(
			s *rules.Settings) {
			s.AddHeaders = map[string][]string{"A": {"{pith}"}}
		},
		"rule 2: remove_headers: a b: not a valid name of a header field": func(
			s *rules.Settings) {
			s.RemoveHeaders = []string{"a b"}
		},
		"rule 2: cache_control: control characters cannot be part of a header field": func(
			s *rules.Settings) {
			s.CacheControl = "\n"
		},
		`rule 2: client: expected a network or an address, such as "10.0.0.0/8", "2001:db8::/32" or ` +
			`"192.0.2.7", or "unix:", found "x"`: func(s *rules.Settings) { s.Client = []string{"x"} },
		`rule 2: client: "10.1.0.0/8" is no network: that one begins at 10.0.0.0/8`: func(
			s *rules.Settings) {
			s.Client = []string{"10.1.0.0/8"}
		},
		`rule 2: path: "/a?b=c": a path has no query in it; write query = { name = "value" }`: func(
			s *rules.Settings) {
			s.Path = []string{"/a?b=c"}
		},
		`rule 2: path: "/[ab]": a pattern knows *, ** and ?; write several patterns for more, ` +
			`or an expression (regexp)`: func(s *rules.Settings) { s.Path = []string{"/[ab]"} },
	} {
		_, err := rules.Compile([]rules.Rule{
			rule(func(s *rules.Settings) { s.Deny = 404 }),
			rule(func(s *rules.Settings) { s.Deny = 404; change(s) }),
		}, "", handlers.Env{})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if e, ok := errors.AsType[*rules.Error](err); ok && e.Rule != 1 {
			t.Errorf("%v: of rule %d", err, e.Rule)
		}
	}
}

func TestExplain(t *testing.T) {
	set, err := rules.Compile([]rules.Rule{
		{Name: "a", Settings: rules.Settings{
			Conditions: rules.Conditions{Path: []string{"*.sql", "/data/**"}}, Deny: 404}},
		{Name: "b", Settings: rules.Settings{
			Conditions: rules.Conditions{Header: map[string][]string{"X": {"1"}}}, Deny: 404}},
		{Name: "c", Settings: rules.Settings{Not: rules.Conditions{Method: []string{"POST"}},
			CacheControl: "no-store"}},
		{Name: "d", Settings: rules.Settings{Conditions: rules.Conditions{Regexp: "^/page/(?<n>.+)$"},
			Rewrite: "/doku.php?id={n}"}},
		{Name: "e", Settings: rules.Settings{Redirect: "https://{host}{uri}"}},
	}, "", handlers.Env{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    rules.Sample
		want rules.Outcome
		path string
		text string
	}{
		{rules.Sample{Path: "/data/x", Host: "h"}, rules.Ended, "/data/x",
			`a: denies with 404 (path wants "*.sql" or "/data/**", it is "/data/x")`},
		{rules.Sample{Path: "/page/x", Host: "h", Header: http.Header{"X": {"2"}}}, rules.Changed,
			"/doku.php",
			`a: not for this request: path wants "*.sql" or "/data/**", it is "/page/x"
b: not for this request: header.X wants "1", it is "2"
c: changes the header (not.method wants anything but POST, it is GET)
d: rewrites to /doku.php?id=x (regexp wants ^/page/(?<n>.+)$, the path is "/page/x")`},
		{rules.Sample{Path: "/x", Host: "h", Verb: "POST"}, rules.Ended, "/x",
			`a: not for this request: path wants "*.sql" or "/data/**", it is "/x"
b: not for this request: header.X wants "1", there is none
c: not for this request: not.method wants anything but POST, it is POST
d: not for this request: regexp wants ^/page/(?<n>.+)$, the path is "/x"
e: redirects with 302 to https://h/x (it has no conditions)`},
	} {
		var lines []string
		got := set.Explain(&c.q, func(line string) { lines = append(lines, line) })
		if text := strings.Join(lines, "\n"); got != c.want || c.q.Path != c.path || text != c.text {
			t.Errorf("got %v, %s\n%s\nwant %v, %s\n%s", got, c.q.Path, text, c.want, c.path, c.text)
		}
	}
}

// TestExplainNoClient: a sample without an address is not that of a client of a UNIX socket.
func TestExplainNoClient(t *testing.T) {
	set := must.Get(rules.Compile([]rules.Rule{
		rule(func(s *rules.Settings) { s.Client, s.Deny = []string{"unix:"}, 404 }),
	}, "", handlers.Env{}))(t)
	var text string
	got := set.Explain(&rules.Sample{Path: "/"}, func(line string) { text += line })
	if want := `: not for this request: client wants unix:, it has no address`; got == rules.Ended ||
		text != want {
		t.Errorf("got %v, %q, want %q", got, text, want)
	}
}
