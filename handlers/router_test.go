package handlers_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/test/must"
)

// numbered gives handlers that can be told apart: each returns its number.
func numbered(n int) conn.Handler { return func(*conn.Request, *conn.Response) int { return n } }

// find returns "site/prefix", the site by its number from 1 and the prefix as it is set, or "404".
func find(r *handlers.Router, host, path string) string {
	prefix, h, ok := r.Find([]byte(host), []byte(path))
	if !ok {
		return "404"
	}
	return fmt.Sprintf("%d%s", h(nil, nil), prefix)
}

// site numbers all routes of a site alike.
func site(n int, hosts string, prefixes ...string) handlers.Site {
	s := handlers.Site{Hosts: strings.Fields(hosts)}
	for _, p := range prefixes {
		s.Routes = append(s.Routes, handlers.Route{Prefix: p, Handler: numbered(n)})
	}
	return s
}

func newRouter(t testing.TB, sites ...handlers.Site) *handlers.Router {
	t.Helper()
	r := must.Get(handlers.NewRouter(sites))(t)
	return r
}

func TestPrefixes(t *testing.T) {
	r := newRouter(t, site(1, "", "/hello", "/a/b/c", "/a/", "/a/b/c/d/e", "/with space"))
	root := newRouter(t, site(2, "", "/hello", "/"))
	for _, c := range []struct {
		router     *handlers.Router
		path, want string
		why        string
	}{
		{r, "/hello", "1/hello", "the prefix itself"},
		{r, "/hello/", "1/hello", "its folder"},
		{r, "/hello/x/y", "1/hello", "below"},
		{r, "/helloworld", "404", "no boundary"},
		{r, "/heddo", "404", "as long, but another"},
		{r, "/hell", "404", "a part of a segment"},
		{r, "/Hello", "404", "paths have case"},
		{r, "/", "404", "no route for the root"},
		{r, "/a", "1/a", "a slash at the end of a prefix makes no difference"},
		{r, "/a/b", "1/a", "a folder on the way to a longer prefix is none"},
		{r, "/a/b/c", "1/a/b/c", "the longest"},
		{r, "/a/b/c/d", "1/a/b/c", "between two"},
		{r, "/a/b/c/d/e/f", "1/a/b/c/d/e", "the longest of three"},
		{r, "/a/b/cc", "1/a", "back to the last that matched"},
		{r, "/with space/x", "1/with space", "prefixes are compared decoded"},
		{r, "*", "404", "OPTIONS * has no path"},
		{r, "", "404", ""},
		{root, "/", "2", "a root route has no prefix to cut"},
		{root, "/other", "2", ""},
		{root, "/hello/", "2/hello", ""},
		{root, "/helloworld", "2", ""},
	} {
		if got := find(c.router, "", c.path); got != c.want {
			t.Errorf("%q: got %s, want %s (%s)", c.path, got, c.want, c.why)
		}
	}
}

// TestExactAndRegexps: the very path goes first, then expressions in their order, then prefixes.
func TestExactAndRegexps(t *testing.T) {
	re := regexp.MustCompile
	routes := []handlers.Route{{Prefix: "/"}, {Prefix: "/a/"}, {Prefix: "/a", Exact: true},
		{Prefix: "/a/b/", Exact: true}, {Prefix: "/", Exact: true}, {Prefix: "/", Regexp: re(`\.php$`)},
		{Prefix: "/a", Regexp: re(`^/a/c`)}, {Prefix: "/", Regexp: re(`^/a/c/d`)}}
	for i := range routes {
		routes[i].Handler = func(*conn.Request, *conn.Response) int { return 200 }
	}
	r := must.Get(handlers.NewRouter([]handlers.Site{{Routes: routes}}))(t)
	for path, want := range map[string]int{"/": 4, "/x": 0, "/a": 2, "/a/": 1, "/a/b": 1, "/a/b/": 3,
		"/a/b/c": 1, "/x.php": 5, "/a/x.php": 5, "/a/c/d": 6, "/ab/c": 0, "/a/b.": 1} {
		if _, got, _ := r.Lookup("", false, "GET", "h", path, path); got != want {
			t.Errorf("%s: route %d, want %d", path, got, want)
		}
	}
	mux := handlers.NewMux()
	for _, p := range []string{"/a", "h.example/a", "/a/{$}"} {
		mux.Handle(p, routes[0].Handler)
	}
	r = must.Get(handlers.NewRouter([]handlers.Site{{Routes: routes, Patterns: mux}}))(t)
	for _, c := range []struct{ host, path, pattern string }{
		{"h", "/a", ""}, {"h.example", "/a", "h.example/a"}, {"h", "/a/", "/a/{$}"}} {
		if _, _, got := r.Lookup("", false, "GET", c.host, c.path, c.path); got != c.pattern {
			t.Errorf("%s%s: pattern %q, want %q", c.host, c.path, got, c.pattern)
		}
	}
	routes = append(routes, handlers.Route{Prefix: "/a", Exact: true, Handler: routes[0].Handler})
	if _, err := handlers.NewRouter([]handlers.Site{{Routes: routes}}); err == nil {
		t.Error("the same path twice")
	}
}

func TestHosts(t *testing.T) {
	many := newRouter(t,
		site(1, "example.org www.example.org", "/"),
		site(2, "*.example.org", "/"),
		site(3, "*.deep.example.org", "/"),
		site(4, "Mixed.Example", "/"),
		site(5, "", "/"),
		site(6, "127.0.0.1 [::1] 2001:db8::1", "/"),
	)
	first := newRouter(t, site(1, "one.example", "/"), site(2, "two.example", "/"))
	single := newRouter(t, site(1, "", "/"))
	for _, c := range []struct {
		router     *handlers.Router
		host, want string
		why        string
	}{
		{many, "example.org", "1", "exact"},
		{many, "EXAMPLE.org", "1", "any case"},
		{many, "example.org.", "1", "a dot at the end is DNS's way of saying that it is complete"},
		{many, "example.org:8080", "1", "the port does not matter"},
		{many, "example.org.:8080", "1", "both"},
		{many, "www.example.org", "1", "exact before wildcard"},
		{many, "a.example.org", "2", "wildcard"},
		{many, "a.b.example.org", "2", "more than one label"},
		{many, "a.deep.example.org", "3", "the longest wildcard"},
		{many, "deep.example.org", "2", "a wildcard stands for at least one label"},
		{many, ".example.org", "5", "an empty one is none"},
		{many, "badexample.org", "5", "wildcards end at a dot"},
		{many, "mixed.example", "4", "names in the configuration have any case"},
		{many, "", "5", "HTTP/1.0 without Host"},
		{many, "other.example", "5", "the default site"},
		{many, strings.Repeat("a", 300) + ".example.org", "5", "longer than names can be"},
		{many, "127.0.0.1:80", "6", "IPv4"},
		{many, "[::1]", "6", "IPv6"},
		{many, "[::1]:8080", "6", ""},
		{many, "[0:0:0::1]", "6", "another spelling of it"},
		{many, "[2001:DB8::1]", "6", "without brackets in the configuration"},
		{many, "[::2]", "5", ""},
		{many, "[::1", "5", "broken"},
		{many, "[v1.x]", "5", "IPvFuture"},
		{first, "nobody.example", "1", "none is the default: the first"},
		{first, "two.example", "2", ""},
		{single, "whatever.example", "1", ""},
	} {
		if got := find(c.router, c.host, "/"); got != c.want {
			t.Errorf("%q: got site %s, want %s (%s)", c.host, got, c.want, c.why)
		}
	}
	if got := find(newRouter(t), "a", "/"); got != "404" {
		t.Errorf("no sites: got %s", got)
	}
}

func TestRouterErrors(t *testing.T) {
	ok := site(1, "ok.example", "/")
	for _, c := range []struct {
		sites []handlers.Site
		want  string
	}{
		{[]handlers.Site{ok, site(1, "", "hello")},
			`site 2, route 1: prefix: "hello" does not begin with a slash`},
		{[]handlers.Site{site(1, "", "/", "")},
			`site 1, route 2: prefix: "" does not begin with a slash`},
		{[]handlers.Site{site(1, "", "/a//b")},
			`site 1, route 1: prefix: "/a//b" has an empty segment, which no cleaned path has`},
		{[]handlers.Site{site(1, "", "/a/../b")},
			`site 1, route 1: prefix: "/a/../b" has a dot segment, which no cleaned path has`},
		{[]handlers.Site{site(1, "", "/a", "/b", "/a/")}, `site 1, route 3: prefix: "/a/": named twice`},
		{[]handlers.Site{{Routes: []handlers.Route{{Prefix: "/"}}}}, `site 1, route 1: handler: missing`},
		{[]handlers.Site{ok, site(1, "x.example OK.example.", "/")},
			`site 2: host: "OK.example.": named twice`},
		{[]handlers.Site{site(1, "*.x.example *.X.example", "/")},
			`site 1: host: "*.X.example": named twice`},
		{[]handlers.Site{site(1, "[::1] 0::1", "/")}, `site 1: host: "0::1": named twice`},
		{[]handlers.Site{site(1, "", "/"), ok, site(1, "", "/")},
			`site 3: host: missing, and site 1 has none either: only one site can be the default`},
		{[]handlers.Site{site(1, "example.org:80", "/")},
			`site 1: host: "example.org:80": a host is named without its port`},
		{[]handlers.Site{site(1, "[::1]:80", "/")},
			`site 1: host: "[::1]:80": expected an address in brackets, without a port`},
		{[]handlers.Site{site(1, "[::1%eth0]", "/")}, `site 1: host: "[::1%eth0]": not an IPv6 address`},
		{[]handlers.Site{site(1, "[127.0.0.1]", "/")},
			`site 1: host: "[127.0.0.1]": not an IPv6 address`},
		{[]handlers.Site{site(1, "*", "/")},
			`site 1: host: "*": a wildcard needs a domain, as in *.example.org; a site for every host leaves ` + "`host`" + ` out`},
		{[]handlers.Site{site(1, "www.*.org", "/")},
			`site 1: host: "www.*.org": a wildcard stands at the beginning only, as in *.example.org`},
		{[]handlers.Site{site(1, "a..b", "/")},
			`site 1: host: "a..b": each part between dots has 1 to 63 characters`},
		{[]handlers.Site{site(1, ".example.org", "/")},
			`site 1: host: ".example.org": each part between dots has 1 to 63 characters`},
		{[]handlers.Site{site(1, "münchen.example", "/")},
			`site 1: host: "münchen.example": international names are written in their ASCII form, xn--...`},
		{[]handlers.Site{site(1, "a_b!.example", "/")},
			`site 1: host: "a_b!.example": '!' cannot be part of a host name`},
		{[]handlers.Site{{Hosts: []string{""}}},
			`site 1: host: "": no name in it; a site for every host leaves ` + "`host`" + ` out`},
	} {
		_, err := handlers.NewRouter(c.sites)
		var re *handlers.RouteError
		if !errors.As(err, &re) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// reference is the router as one would explain it: of all prefixes that match, the longest.
func reference(prefixes []string, path string) string {
	best := "404"
	for _, p := range prefixes {
		p = strings.TrimSuffix(p, "/")
		if (path == p || strings.HasPrefix(path, p+"/")) && (best == "404" || len(p) > len(best)) {
			best = p
		}
	}
	return best
}

func FuzzPrefixes(f *testing.F) {
	f.Add("/ /hello /a/b /a", "/hello/x")
	f.Add("/a/b/c /a /ab", "/a/bc")
	f.Add("/x/ /x/y", "/x/y/")
	f.Fuzz(func(t *testing.T, list, path string) {
		var prefixes []string
		for _, p := range strings.Fields(list) {
			// Only what NewRouter takes, one by one: errors have a test of their own.
			if _, err := handlers.NewRouter(
				[]handlers.Site{site(1, "", append(prefixes, p)...)}); err == nil {
				prefixes = append(prefixes, p)
			}
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
			return // no cleaned path
		}
		r := newRouter(t, site(1, "", prefixes...))
		want := reference(prefixes, path)
		got, _, ok := r.Find(nil, []byte(path))
		if !ok {
			got = "404"
		}
		if got != want {
			t.Errorf("prefixes %q, path %q: got %q, want %q", prefixes, path, got, want)
		}
	})
}

// Many small routes over few names: the cases that lie next to each other.
func TestPrefixesAgainstReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	path := func() string {
		var b strings.Builder
		for range rnd.IntN(5) {
			b.WriteString("/" + []string{"a", "b", "ab", "abc"}[rnd.IntN(4)])
		}
		if b.Len() == 0 || rnd.IntN(4) == 0 {
			b.WriteByte('/')
		}
		return b.String()
	}
	for range 500 {
		var prefixes []string
		for range rnd.IntN(8) {
			if p := path(); !slices.Contains(prefixes, p) && !slices.Contains(prefixes, p+"/") &&
				!slices.Contains(prefixes, strings.TrimSuffix(p, "/")) {
				prefixes = append(prefixes, p)
			}
		}
		r := newRouter(t, site(1, "", prefixes...))
		for range 20 {
			p := path()
			want := reference(prefixes, p)
			got, _, ok := r.Find(nil, []byte(p))
			if !ok {
				got = "404"
			}
			if got != want {
				t.Fatalf("prefixes %q, path %q: got %q, want %q", prefixes, p, got, want)
			}
		}
	}
}

// referenceHost repeats the rules for hosts over a list of sites.
func referenceHost(hosts []string, host string) int {
	if strings.HasPrefix(host, "[") {
		text, _, ok := strings.Cut(host[1:], "]")
		addr, err := netip.ParseAddr(text)
		for i, h := range hosts {
			if a, e := netip.ParseAddr(strings.Trim(h, "[]")); ok && err == nil && e == nil && a.Is6() &&
				a == addr {
				return i
			}
		}
		return -1
	}
	if i := strings.LastIndex(host, ":"); i >= 0 {
		host = host[:i]
	}
	host = ascii.ToLower(strings.TrimSuffix(host, "."))
	best, length := -1, 0
	for i, h := range hosts {
		if strings.Contains(h, ":") {
			continue // an address, which a client writes in brackets
		}
		h = ascii.ToLower(strings.TrimSuffix(h, "."))
		if h == host {
			return i
		}
		if tail, ok := strings.CutPrefix(h, "*"); ok && len(host) > len(tail) &&
			strings.HasSuffix(host, tail) && len(tail) > length {
			best, length = i, len(tail)
		}
	}
	if len(host) > 253 {
		return -1
	}
	return best
}

func FuzzHosts(f *testing.F) {
	f.Add("example.org *.example.org *.a.example.org", "x.a.Example.ORG.:80")
	f.Add("[::1] a.b", "[0::1]:8080")
	f.Add("*.b a.b", "a.b:")
	f.Add("::1", "::1:80")
	f.Add("\u212a \u0130.b", "k")
	f.Fuzz(func(t *testing.T, list, host string) {
		var hosts []string
		sites := []handlers.Site{site(0, "", "/")}
		for _, h := range strings.Fields(list) {
			s := site(len(hosts)+1, "", "/")
			s.Hosts = []string{h}
			if _, err := handlers.NewRouter(append(sites, s)); err == nil {
				sites, hosts = append(sites, s), append(hosts, h)
			}
		}
		r := newRouter(t, sites...)
		if got, want := find(r, host, "/"), fmt.Sprint(referenceHost(hosts, host)+1); got != want {
			t.Errorf("hosts %q, host %q: got %s, want %s", hosts, host, got, want)
		}
	})
}

func TestFindDoesNotAllocate(t *testing.T) {
	r := newRouter(t, site(1, "example.org *.example.org [::1]", "/", "/a/b", "/hello"),
		site(2, "", "/"))
	path := []byte("/a/b/c")
	for _, host := range []string{"Example.org:8080", "a.b.example.org", "[::1]:80", "other"} {
		view := []byte(host)
		if n := testing.AllocsPerRun(100, func() { r.Find(view, path) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
	split := newRouter(t, at("plain", "", site(1, "a.test", "/")),
		at("", "https", site(2, "a.test", "/")))
	view := []byte("a.test")
	if n := testing.AllocsPerRun(100, func() { split.FindAt("plain", true, view, path) }); n != 0 {
		t.Errorf("by listener: %v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, c := range []struct {
		name   string
		router *handlers.Router
	}{
		{"one route", newRouter(b, site(1, "", "/"))},
		{"three routes", newRouter(b, site(1, "", "/", "/hello", "/static"))},
		{"virtual hosts", newRouter(b, site(1, "example.org", "/", "/hello"),
			site(2, "*.example.org", "/", "/hello"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			host, path := []byte("www.example.org:8080"), []byte("/hello/world")
			for b.Loop() {
				c.router.Find(host, path)
			}
		})
	}
}

func findAt(r *handlers.Router, listener, scheme, host string) string {
	_, h, ok := r.FindAt(listener, scheme == "https", []byte(host), []byte("/"))
	if !ok {
		return "404"
	}
	return fmt.Sprint(h(nil, nil))
}

// at limits a site to listeners and a scheme.
func at(listeners, scheme string, s handlers.Site) handlers.Site {
	s.Listeners, s.Scheme = strings.Fields(listeners), scheme
	return s
}

func TestListenersAndSchemes(t *testing.T) {
	r := newRouter(t,
		site(1, "a.test", "/"),
		at("", "http", site(2, "a.test b.test", "/")),
		at("plain", "", site(3, "a.test *.c.test", "/")),
		at("plain", "https", site(4, "a.test", "/")),
		at("plain other", "", site(5, "", "/")),
		at("", "https", site(6, "", "/")),
		at("inner outer", "", site(7, "[::1]", "/")),
		at("inner", "", site(8, "c.test x.c.test", "/")),
	)
	for _, c := range []struct{ listener, scheme, host, want, why string }{
		{"", "https", "a.test", "1", "names nothing, and so answers where no other does"},
		{"new", "http", "a.test", "2", "a scheme comes before nothing"},
		{"plain", "http", "a.test", "3", "a listener comes before a scheme"},
		{"plain", "https", "a.test", "4", "both come before one"},
		{"plain", "http", "b.test", "2", "where no other site has the host"},
		{"plain", "https", "b.test", "5", "the default site of the listener"},
		{"other", "https", "x.test", "5", "before that of the scheme"},
		{"new", "https", "x.test", "6", "the default site of the scheme"},
		{"new", "http", "x.test", "1", "no default site: the first that answers here"},
		{"plain", "http", "x.c.test", "3", ""},
		{"new", "http", "x.c.test", "1", "another listener"},
		{"inner", "http", "x.c.test", "8", ""},
		{"inner", "http", "[::1]:80", "7", ""},
		{"outer", "https", "[::1]", "7", ""},
		{"plain", "https", "[::1]", "5", ""},
	} {
		if got := findAt(r, c.listener, c.scheme, c.host); got != c.want {
			t.Errorf("%s at %q by %s: got site %s, want %s (%s)", c.host, c.listener, c.scheme, got,
				c.want, c.why)
		}
	}
	only := newRouter(t, at("plain", "", site(1, "a.test", "/")),
		at("secure", "", site(2, "a.test", "/")))
	for listener, want := range map[string]string{"plain": "1", "secure": "2", "third": "404"} {
		if got := findAt(only, listener, "http", "a.test"); got != want {
			t.Errorf("at %s: got %s, want %s", listener, got, want)
		}
	}
}

func TestListenerErrors(t *testing.T) {
	a := site(1, "a.test", "/")
	anyHost := site(1, "", "/")
	for _, c := range []struct {
		sites []handlers.Site
		want  string
	}{
		{[]handlers.Site{at("x y", "", a), at("y", "", a)},
			`site 2: host: "a.test": named twice, for the same listener or scheme`},
		{[]handlers.Site{at("", "http", a), at("", "http", a)},
			`site 2: host: "a.test": named twice, for the same listener or scheme`},
		{[]handlers.Site{at("x", "", a), a, a}, `site 3: host: "a.test": named twice`},
		{[]handlers.Site{at("x", "", anyHost), anyHost, at("x", "", anyHost)},
			`site 3: host: missing, and site 1 has none either: only one site can be the default`},
		{[]handlers.Site{at("", "ftp", a)}, `site 1: scheme: expected http or https, found "ftp"`},
	} {
		_, err := handlers.NewRouter(c.sites)
		var re *handlers.RouteError
		if !errors.As(err, &re) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	for _, ok := range [][]handlers.Site{
		{at("x", "", a), at("y", "", a), a, at("", "http", a), at("x", "http", a)},
		{at("x", "http", a), at("x", "https", a)},
		{at("x", "", anyHost), at("y", "", anyHost), anyHost, at("", "https", anyHost)},
	} {
		if _, err := handlers.NewRouter(ok); err != nil {
			t.Error(err)
		}
	}
}
