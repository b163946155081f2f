package browsers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/browsers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// app answers with fields that contradict the settings, and says that it was reached.
func app(req *conn.Request, resp *conn.Response) int {
	h := resp.Header()
	h.Set("X-App", "reached")
	h.Set("Access-Control-Allow-Origin", "https://evil.example")
	h.Set("Access-Control-Allow-Credentials", "true")
	if req.Path() == "/error" {
		return 500
	}
	h.Set("X-Frame-Options", "ALLOWALL")
	return 200
}

// fields returns the fields that matter of an answer, in one line.
func fields(a server.Answer) string {
	var all []string
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
		"Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age",
		"Access-Control-Expose-Headers", "X-App", "Vary"} {
		short := strings.TrimPrefix(strings.TrimPrefix(name, "Access-Control-"), "Allow-")
		for _, v := range a.Header.Values(name) {
			all = append(all, short+"="+v)
		}
	}
	return fmt.Sprint(a.StatusCode, " ", strings.Join(all, "; "))
}

func TestCORS(t *testing.T) {
	start := func(set browsers.CORS) *server.Server {
		return module.Start(t, modes.Plain, "/", must.Get(browsers.NewCORS(set))(t)(app))
	}
	few := start(browsers.CORS{Origins: []string{"https://a.test", "https://*.b.test:8443"},
		Methods: []string{"GET", "PUT"}, Headers: []string{"X-Token"}, Expose: []string{"X-Total"},
		Credentials: true, MaxAge: 10 * time.Minute})
	all := start(browsers.CORS{Origins: []string{"*"}, Headers: []string{"*"}})
	const fit = "200 Origin=ORIGIN; Credentials=true; Expose-Headers=X-Total; X-App=reached; Vary=Origin"
	const not = "200 X-App=reached; Vary=Origin"
	const vary = "; Vary=Access-Control-Request-Method; Vary=Access-Control-Request-Headers"
	for _, c := range []struct {
		s            *server.Server
		line, origin string
		more         string
		want         string
	}{
		{few, "GET /", "https://a.test", "", fit},
		{few, "POST /", "https://a.test", "", fit},
		{few, "GET /error", "https://a.test", "", strings.Replace(fit, "200", "500", 1)},
		{few, "GET /", "https://x.b.test:8443", "", fit},
		{few, "GET /", "https://x.y-z.b.test:8443", "", fit},
		{few, "GET /", "", "", not},
		{few, "GET /", "null", "", not},
		{few, "GET /", "http://a.test", "", not},
		{few, "GET /", "https://a.test:444", "", not},
		{few, "GET /", "https://a.test.evil", "", not},
		{few, "GET /", "https://xa.test", "", not},
		{few, "GET /", "https://b.test:8443", "", not},
		{few, "GET /", "https://.b.test:8443", "", not},
		{few, "GET /", "https://evil/.b.test:8443", "", not},
		{few, "GET /", "https://evil@x.b.test:8443", "", not},
		{few, "GET /", "https://x.b.test:8443.evil", "", not},
		{few, "GET /", "https://x.b.test", "", not},
		{few, "OPTIONS /", "https://a.test", "PUT", "204 Origin=ORIGIN; Credentials=true; " +
			"Methods=GET, PUT; Headers=X-Token; Max-Age=600; Expose-Headers=X-Total" + vary + "; Vary=Origin"},
		{few, "OPTIONS /", "https://evil.test", "PUT", "204 " + vary[2:] + "; Vary=Origin"},
		{few, "OPTIONS /", "https://a.test", "", fit}, // no preflight
		{few, "GET /", "https://a.test", "PUT", fit},
		{few, "OPTIONS /", "", "PUT", not},
		{all, "GET /", "https://x.test", "", "200 Origin=*; X-App=reached"},
		{all, "GET /", "", "", "200 Origin=*; X-App=reached"},
		{all, "GET /", "null", "", "200 Origin=*; X-App=reached"},
		{all, "OPTIONS /", "https://x.test", "POST",
			"204 Origin=*; Methods=GET, HEAD, POST; Headers=*" + vary},
	} {
		list := []string{"Content-Length: 0"}
		if c.origin != "" {
			list = append(list, "Origin: "+c.origin)
		}
		if c.more != "" {
			list = append(list, "Access-Control-Request-Method: "+c.more)
		}
		want := strings.ReplaceAll(c.want, "Origin=ORIGIN", "Origin="+c.origin)
		if got := fields(c.s.Request(c.line, list, "")); got != want {
			t.Errorf("%s from %q:\ngot  %s\nwant %s", c.line, c.origin, got, want)
		}
	}
}

// TestCSRF: the answers are those of net/http.
func TestCSRF(t *testing.T) {
	h := must.Get(browsers.NewCSRF(browsers.CSRF{Trusted: []string{"https://friend.test"},
		Bypass: []string{"/hooks/**"}}))(t)(app)
	s := module.Start(t, modes.Plain, "/", h)
	oracle := http.NewCrossOriginProtection()
	must.Do(t, oracle.AddTrustedOrigin("https://friend.test"))
	oracle.AddInsecureBypassPattern("/hooks/")
	passed, refused := 0, 0
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "get", "FOO"} {
		for _, path := range []string{"/", "/hooks/x", "/hooksx"} {
			for _, site := range []string{"", "same-origin", "same-site", "cross-site", "none", "x"} {
				for _, origin := range []string{"", "https://test.example", "http://test.example",
					"https://test.example:444", "https://evil.test", "https://friend.test", "null",
					"test.example", "http://friend.test"} {
					r := httptest.NewRequest(method, "http://test.example"+path, nil)
					list := []string{"Content-Length: 0"}
					if site != "" {
						r.Header.Set("Sec-Fetch-Site", site)
						list = append(list, "Sec-Fetch-Site: "+site)
					}
					if origin != "" {
						r.Header.Set("Origin", origin)
						list = append(list, "Origin: "+origin)
					}
					want := 200
					if oracle.Check(r) != nil {
						want = 403
						refused++
					} else {
						passed++
					}
					if got := s.Request(method+" "+path, list, "").StatusCode; got != want {
						t.Errorf("%s %s %v: %d, want %d", method, path, list, got, want)
					}
				}
			}
		}
	}
	if passed < 100 || refused < 100 {
		t.Errorf("%d passed, %d refused", passed, refused)
	}
}

// TestCSRFReadings: what an application may take for another path does not pass by bypass.
func TestCSRFReadings(t *testing.T) {
	h := must.Get(browsers.NewCSRF(browsers.CSRF{Bypass: []string{"/hooks/*"}}))(t)(app)
	s := module.Start(t, modes.Plain, "/", h)
	for path, want := range map[string]int{
		"/hooks/a": 200, "/hooks/%61": 200, "/x/../hooks/a": 200, "/hooks/a%2fb": 403,
		"/hooks/../delete": 403, "/hooks%2f..%2fdelete": 403,
	} {
		got := s.Request("POST "+path, []string{"Content-Length: 0", "Origin: https://evil.test"}, "")
		if got.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, got.StatusCode, want)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	for _, preset := range []string{"usual", "strict"} {
		s := module.Start(t, modes.Plain, "/", browsers.NewSecurityHeaders(preset)(app))
		for _, path := range []string{"/", "/error"} {
			a := s.Request("GET "+path, nil, "")
			for _, f := range browsers.Presets[preset] {
				want := f.Value
				if f.Name == "X-Frame-Options" && path == "/" {
					want = "ALLOWALL" // the application's
				}
				if got := a.Header.Values(f.Name); len(got) != 1 || got[0] != want {
					t.Errorf("%s, %s: %s is %q, want %q", preset, path, f.Name, got, want)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	const example = `; expected an origin such as "https://app.example.org", ` +
		`"http://localhost:3000" or "https://*.example.org"`
	origin := func(s string) browsers.CORS { return browsers.CORS{Origins: []string{s}} }
	for _, c := range []struct {
		set  browsers.CORS
		want string
	}{
		{browsers.CORS{}, `origins: expected at least one, such as "https://app.example.org"`},
		{origin("a.test"), `origins: "a.test": there is no scheme` + example},
		{origin("null"), `origins: "null": any page can have that origin, by a sandboxed frame` + example},
		{origin("https://a.test/"), `origins: "https://a.test/": an origin has no path and no user` + example},
		{origin("https://A.test"), `origins: "https://A.test": browsers send small letters` + example},
		{origin("https://a.test:443"),
			`origins: "https://a.test:443": browsers leave out the usual port` + example},
		{origin("https://"), `origins: "https://": that is no host` + example},
		{origin("https://*"), `origins: "https://*": that is no host` + example},
		{origin("https://a*.test"), `origins: "https://a*.test": that is no host` + example},
		{origin("https://a\r\nb"), `origins: "https://a\r\nb": that is no host` + example},
		{browsers.CORS{Origins: []string{"*"}, Credentials: true},
			`origins: "*" beside credentials would let every page act as the user; name the origins`},
		{browsers.CORS{Origins: []string{"https://a.test"}, Credentials: true, Headers: []string{"*"}},
			`headers: browsers take "*" for a name where credentials are sent; name them`},
		{browsers.CORS{Origins: []string{"*"}, Methods: []string{"get"}},
			`methods: "get" is not a name of one`},
		{browsers.CORS{Origins: []string{"*"}, Expose: []string{"a b"}},
			`expose: "a b" is not a name of one`},
	} {
		_, err := browsers.NewCORS(c.set)
		if bad := (*handlers.KeyError)(nil); !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	for _, c := range []struct {
		set  browsers.CSRF
		want string
	}{
		{browsers.CSRF{Trusted: []string{"*"}},
			`trusted: "*" would be no protection; leave the key csrf out`},
		{browsers.CSRF{Trusted: []string{}},
			`trusted: expected at least one, such as "https://app.example.org"`},
		{browsers.CSRF{Bypass: []string{"/a?b=c"}},
			`bypass: "/a?b=c": a path has no query in it; write query = { name = "value" }`},
	} {
		_, err := browsers.NewCSRF(c.set)
		if bad := (*handlers.KeyError)(nil); !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestAllocates: neither key makes garbage for a request.
func TestAllocates(t *testing.T) {
	plain := func(*conn.Request, *conn.Response) int { return 204 }
	layers := handlers.Chain(browsers.NewSecurityHeaders("strict"),
		must.Get(browsers.NewCORS(browsers.CORS{Origins: []string{"https://a.test"}}))(t),
		must.Get(browsers.NewCSRF(browsers.CSRF{Trusted: []string{"https://a.test"}}))(t))
	with := module.Start(t, modes.Plain, "/", layers(plain))
	without := module.Start(t, modes.Plain, "/", plain)
	const post = "POST / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\nContent-Length: 0\r\n\r\n"
	if a, b := with.Allocs(post), without.Allocs(post); a > b+0.5 {
		t.Errorf("%v allocations, without the keys %v", a, b)
	}
}
