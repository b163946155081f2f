package rules_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/http1"
)

// spelled is a site with a rule, which a test changes, in front of patterns, a route and upstreams.
// Whatever lets a request pass notes the segments that it has found in the path.
type spelled struct {
	*server.Server
	conn   net.Conn // nil: none
	reader *bufio.Reader

	mu    sync.Mutex
	set   *rules.Set
	got   [][]string
	fault error
}

func startSpelled(t testing.TB) *spelled {
	s := new(spelled)
	note := func(segments ...string) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.ContainsFunc(s.got, func(got []string) bool { return slices.Equal(got, segments) }) {
			s.got = append(s.got, segments)
		}
		return http.StatusOK
	}
	// An upstream may decode a path first or split it first, and take empty segments for none, before
	// it decodes or behind.
	upstream := func(strip, merge bool, prefix ...string) conn.Handler {
		up := server.Start(t, modes.Direct,
			conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
				path, _, _ := strings.Cut(req.Target(), "?")
				if path == "/" && len(prefix) > 0 {
					return http.StatusOK // strip_prefix makes that of "/app" and of "/app/"
				}
				decoded, err := url.PathUnescape(path)
				if !strings.HasPrefix(path, "/") || err != nil {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.fault = fmt.Errorf("an upstream gets %q", path)
					return http.StatusBadRequest
				}
				for _, path := range []string{decoded, merged(decoded), unescape(merged(path))} {
					note(append(prefix, strings.Split(path[1:], "/")...)...)
				}
				for _, path := range []string{path, merged(path)} {
					segments := strings.Split(path[1:], "/")
					for i := range segments {
						segments[i] = unescape(segments[i])
					}
					note(append(prefix, segments...)...)
				}
				return http.StatusOK
			}})
		h, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(c *proxy.Settings) {
				c.Address, c.StripPrefix, c.MergeSlashes = []string{up.Addr}, strip, merge
			})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	mux := handlers.NewMux()
	mux.Handle("/items/{id}", func(req *conn.Request, _ *conn.Response) int {
		return note("items", req.PathValue("id"))
	})
	mux.Handle("/x/{a}/{b}", func(req *conn.Request, _ *conn.Response) int {
		return note("x", req.PathValue("a"), req.PathValue("b"))
	})
	mux.Handle("/y/{all...}", func(req *conn.Request, _ *conn.Response) int {
		return note(append([]string{"y"}, strings.Split(req.PathValue("all"), "/")...)...)
	})
	router := must.Get(handlers.NewRouter([]handlers.Site{{
		Patterns: mux,
		Routes: []handlers.Route{
			{Prefix: "/", Handler: upstream(false, true)},
			{Prefix: "/app", Handler: upstream(true, true, "app")},
			{Prefix: "/keep", Handler: upstream(false, false)},
			{Prefix: "/cut/off", Handler: upstream(true, false, "cut", "off")},
			{Prefix: "/files", Handler: func(req *conn.Request, _ *conn.Response) int {
				return note(strings.Split(req.Path()[1:], "/")...)
			}},
		},
		Around: func(next conn.Handler) conn.Handler {
			return func(req *conn.Request, resp *conn.Response) int {
				s.mu.Lock()
				set := s.set
				s.mu.Unlock()
				return set.Middleware()(next)(req, resp)
			}
		},
	}}))(t)
	s.Server = server.Start(t, modes.Direct, conn.Config{Handler: router.Serve})
	t.Cleanup(func() {
		if s.conn != nil {
			s.conn.Close()
		}
	})
	return s
}

// merged returns a path without empty segments.
func merged(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

func unescape(s string) string {
	s, err := url.PathUnescape(s)
	if err != nil {
		panic(err)
	}
	return s
}

// use puts a rule in front.
func (s *spelled) use(r rules.Rule) error {
	set, err := rules.Compile([]rules.Rule{r}, "", handlers.Env{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	return err
}

// ask sends a request for a path, and returns the answer and what was noted.
func (s *spelled) ask(t *testing.T, raw string) (answer *http.Response, got [][]string) {
	t.Helper()
	s.mu.Lock()
	s.got, s.fault = nil, nil
	s.mu.Unlock()
	var err error
	if s.conn == nil {
		if s.conn, err = net.Dial("tcp", s.Addr); err != nil {
			t.Fatal(err)
		}
		s.reader = bufio.NewReader(s.conn)
	}
	fmt.Fprintf(s.conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", raw)
	if answer, err = http.ReadResponse(s.reader, nil); err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if answer.Close {
		s.conn.Close()
		s.conn = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		t.Errorf("%s: %v", raw, s.fault)
	}
	return answer, s.got
}

// An encoded slash gets nobody past a rule: whether what comes behind it takes that for a slash or
// for a part of a segment, the rule has looked at the path in the same way.
func TestEncodedSlash(t *testing.T) {
	s := startSpelled(t)
	deny := func(change func(*rules.Settings)) rules.Rule {
		return rule(func(s *rules.Settings) { s.Deny = 403; change(s) })
	}
	for _, c := range []struct {
		rule      rules.Rule
		yes, open string // paths that are denied, and others
	}{
		{deny(func(s *rules.Settings) { s.Path = []string{"/items/secret*"} }),
			"/items/secret1 /items/secret1%2F /items/secret%2fx /%69tems/secret%2F //items/secret%2Fx " +
				"/items/b/..%2Fsecret1",
			"/items/other /items/other%2Fsecret /items%2Fsecret/x"},
		{deny(func(s *rules.Settings) { s.Path = []string{"/admin/*"} }),
			"/admin/a /admin/a%2Fb /admin%2Fa /admin/a%2F /x/../admin/a%2Fb /%61dmin//a%2fb",
			"/admin /admin/a/b /admin/a%2Fb/c /admin%2Fa%2Fb"},
		{deny(func(s *rules.Settings) {
			s.Path = []string{"/admin/**"}
		}), "/admin/a%2Fb /admin%2Fa%2fb", "/b%2Fadmin"},
		{deny(func(s *rules.Settings) {
			s.Path = []string{"secret"}
		}), "/a/secret /a%2Fsecret%2Fb", "/a%2Fsecrets"},
		{deny(func(s *rules.Settings) { s.Regexp = "^/items/[^/]+$" }),
			"/items/a /items/a%2Fb /items%2Fa", "/items/a/b /items/a%2Fb/c"},
		{deny(func(s *rules.Settings) { s.Not.Path = []string{"/app/*"} }),
			"/a /app/a%2Fb /app/a/b /app%2Fa%2Fb /app%2Fa", "/app/a"},
		{deny(func(s *rules.Settings) {
			s.Not.Path = []string{"/app/**"}
		}), "/a /app%2Fa", "/app/a%2Fb /app/a"},
		{deny(func(s *rules.Settings) { s.Path, s.Not.Path = []string{"/app/**"}, []string{"/app/x/*"} }),
			"/app/a%2Fb /app/x/a%2Fb", "/app/x/a /b%2Fc"},
		{deny(func(s *rules.Settings) {
			s.Path, s.Method = []string{"/app/*"}, []string{"POST"}
		}), "", "/app/a%2Fb /app/a"},
		// What an upstream gets with empty segments.
		{deny(func(s *rules.Settings) {
			s.Path = []string{"/keep/https:/evil.example/**"}
		}), "/keep/https://evil.example/x " +
			"/keep/https:%2F%2Fevil.example/x /keep/https%3A%2f/evil.example /keep/https:/evil.example",
			"/keep/https://example/x"},
		{deny(func(s *rules.Settings) {
			s.Path = []string{"/keep/*/b"}
		}), "/keep/a/b /keep/a//b /keep//b", "/keep/b"},
		{deny(func(s *rules.Settings) {
			s.Regexp = "^/keep/[^/]*//"
		}), "/keep/a//b /keep/a%2f/b /keep/a%2F%2Fb /keep///b", "/keep/a/b /keep/a%2Fb"},
		{deny(func(s *rules.Settings) {
			s.Not.Path = []string{"/keep/*", "/keep/a/**"}
		}), "/keep/b//c /keep//b /keep/b%2F%2Fc", "/keep/b /keep/a//c"},
	} {
		must.Do(t, s.use(c.rule))
		for _, path := range strings.Fields(c.yes) {
			if answer, got := s.ask(t, path); answer.StatusCode != 403 || got != nil {
				t.Errorf("%+v: %s is %d, and leads to %q", c.rule.Settings.Conditions, path, answer.StatusCode,
					got)
			}
		}
		for _, path := range strings.Fields(c.open) {
			if answer, _ := s.ask(t, path); answer.StatusCode == 403 {
				t.Errorf("%+v: %s is denied", c.rule.Settings.Conditions, path)
			}
		}
	}
}

// A rule that holds for a path with an encoded slash uses the reading for which it holds: a slash
// that it has taken for a part of a segment stays encoded.
func TestEncodedSlashRewritten(t *testing.T) {
	s := startSpelled(t)
	for _, c := range []struct {
		change func(*rules.Settings)
		path   string
		want   string // Location, or what is noted
	}{
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/([^/]+)$", "/x/{1}/z" }, "/k/a%2Fb",
			`[["x" "a/b" "z"]]`},
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/([^/]+)/([^/]+)$", "/x/{1}/{2}" },
			"/k/a%2Fb", `[["x" "a" "b"]]`},
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/(.+)$", "/x/{1}/z" }, "/k/a%2Fb",
			`[["x" "a/b" "z"]]`},
		{func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/k/*"}, "/app{path}" }, "/k/a%2Fb",
			`[["app" "k" "a" "b"] ["app" "k" "a/b"]]`},
		{func(s *rules.Settings) { s.Path, s.Rewrite = []string{"/k/**"}, "/app{path}" }, "/k/a%2Fb",
			`[["app" "k" "a" "b"] ["app" "k" "a/b"]]`},
		{func(s *rules.Settings) { s.Path, s.Redirect = []string{"/k/*"}, "/app{uri}" }, "/k/a%2Fb",
			"/app/k/a%2Fb"},
		{func(s *rules.Settings) { s.Regexp, s.Redirect = "^/k/([^/]+)$", "/app?at={1}" }, "/k/a%2Fb",
			"/app?at=a/b"},
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/([^/]+)$", "/x/{1}/z" },
			"/k/x%2F..%2F..%2Fa", `[["a"]]`},
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/x(.+)$", "/static/{1}" }, "/k/x..%2Fa", ""},
		{func(s *rules.Settings) { s.Regexp, s.Redirect = "^/k/(.*)$", "/app/{1}" },
			"/k/a%2fb%3B%26%2B%3A%40//|", "/app/a%2fb%3B%26%2B%3A%40//%7C"},
		{func(s *rules.Settings) { s.Redirect = "/app{uri}" }, "/k/a%3B//%2F?b=%2f",
			"/app/k/a%3B//%2F?b=%2f"},
		{func(s *rules.Settings) { s.Regexp, s.Rewrite = "^/k/(.*)$", "/y/{1}" }, "/k/https%3A%2F%2Fx",
			`[["y" "https:" "" "x"]]`},
		{func(s *rules.Settings) { s.Regexp, s.Redirect = "^/k/(.*)$", "/app?at={1}" }, "/k/a%20b%26",
			"/app?at=a%20b%26"},
	} {
		one := rule(c.change)
		must.Do(t, s.use(one))
		answer, all := s.ask(t, c.path)
		got := answer.Header.Get("Location")
		if all != nil {
			got = fmt.Sprintf("%q", all)
		}
		if got != c.want {
			t.Errorf("%+v: got %s, %d, want %s", one.Settings, got, answer.StatusCode, c.want)
		}
	}
}

// matches is what the manual says of patterns, for the segments of a path.
func matches(pattern string, path []string) bool {
	one := func(pattern, segment string) bool {
		x := regexp.QuoteMeta(pattern)
		x = strings.ReplaceAll(strings.ReplaceAll(x, `\*`, ".*"), `\?`, ".")
		return regexp.MustCompile("(?s)^(?:" + x + ")$").MatchString(segment)
	}
	if !strings.Contains(pattern, "/") {
		return slices.ContainsFunc(path, func(s string) bool { return s != "" && one(pattern, s) })
	}
	var all func(patterns, path []string) bool
	all = func(patterns, path []string) bool {
		switch {
		case len(patterns) == 0:
			return len(path) == 0
		case patterns[0] == "**":
			for i := range len(path) + 1 {
				if all(patterns[1:], path[i:]) {
					return true
				}
			}
			return false
		}
		return len(path) > 0 && one(patterns[0], path[0]) && all(patterns[1:], path[1:])
	}
	return all(strings.Split(pattern[1:], "/"), path)
}

// What a rule denies, no route, pattern or upstream gets under another spelling.
func FuzzSpelling(f *testing.F) {
	for _, seed := range []struct{ pattern, raw string }{
		{"/items/secret*", "/items/secret1%2F"}, {"/admin/*", "/admin/a%2Fb"}, {"/app/*", "/app%2Fa%2Fb"},
		{"/x/*/z", "/x/a%2Fb/z"}, {"/y/**/b", "/y/a%2f%2e/b"}, {"*.sql", "/files/a.sql%2F"},
		{"/app/a?c", "/app//a%2Fc"}, {"/a/c", "/a/b%2F../c"}, {"/**/.git", "/a/x%2F..%2F.git"},
		{"/a", "/x%2Fb/../a%22"}, {"/app", "/app/b%2F..;"}, {"/y/", "/y%2F"},
		{"/q/**", "/%71%2Fb/%2E%2E/q|"},
		{"/keep/https://x", "/keep/https%3A%2F%2Fx"}, {"/keep/*/b", "/keep//b"},
		{"/keep/*/*/y", "/keep//x/%2Fy"}, {"/a/b", "/a/%2Fb"},
		{"/cut/off/*/*/y", "/cut/off//x//y"}, {"/cut/off/a/b", "/cut//off/a%2Fb"},
		{"/cut/off/*/*", "/cut%2Foff/a//b"}, {"/y/*/b", "/y/a%2F%2Fb"},
	} {
		f.Add(seed.pattern, seed.raw, false)
		f.Add(seed.pattern, seed.raw, true)
	}
	s := startSpelled(f)
	f.Fuzz(func(t *testing.T, pattern, raw string, not bool) {
		if len(pattern) > 40 || len(raw) > 60 || !strings.HasPrefix(raw, "/") ||
			!utf8.ValidString(pattern) || strings.ContainsAny(raw, "?#") {
			return
		}
		for i := range len(raw) {
			if raw[i] <= ' ' || raw[i] == 0x7f {
				return // no target of a request
			}
		}
		if _, err := http1.CleanPath(nil, []byte(raw)); err != nil {
			return
		}
		one := rule(func(s *rules.Settings) {
			if s.Deny = 403; not {
				s.Not.Path = []string{pattern}
			} else {
				s.Path = []string{pattern}
			}
		})
		if s.use(one) != nil {
			return
		}
		answer, got := s.ask(t, raw)
		for _, path := range got {
			if matches(pattern, path) != not {
				t.Errorf("%q, not %v: %s is %d, and leads to %q", pattern, not, raw, answer.StatusCode, path)
			}
		}
	})
}
