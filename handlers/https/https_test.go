package https_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/https"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// start serves a site with these settings, behind trusted proxies or none.
func start(t *testing.T, m modes.Mode, s https.Settings, port int,
	trusted ...string) *server.Server {
	t.Helper()
	around := must.Get(https.New(s, func() int { return port }))(t)
	router := must.Get(handlers.NewRouter([]handlers.Site{{Around: around, Routes: []handlers.Route{
		{Prefix: "/", Handler: func(*conn.Request, *conn.Response) int { return 204 }},
		{Prefix: "/error", Handler: func(*conn.Request, *conn.Response) int { return 500 }},
		{Prefix: "/panic", Handler: func(*conn.Request, *conn.Response) int { panic("on purpose") }},
		{Prefix: "/own", Handler: func(_ *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Strict-Transport-Security", "max-age=0")
			return 204
		}},
	}}}))(t)
	cfg := conn.Config{Handler: router.Serve}
	if len(trusted) > 0 {
		p := new(conn.Proxies)
		for _, n := range trusted {
			p.Networks = append(p.Networks, netip.MustParsePrefix(n))
		}
		cfg.Proxies = map[string]*conn.Proxies{"": p}
	}
	return server.Start(t, m, cfg)
}

// TestBehindProxyProtocol: a client that has come to the proxy by https is not sent there again.
func TestBehindProxyProtocol(t *testing.T) {
	around := must.Get(https.New(toHTTPS, func() int { return 443 }))(t)
	s := server.Start(t, modes.Plain, conn.Config{
		Handler: around(func(*conn.Request, *conn.Response) int { return 204 }),
		Proxies: map[string]*conn.Proxies{"": {Protocol: true,
			Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}},
	})
	const v2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x14\xc0\x00\x02\x01\xcb\x00\x71\x07\xdc\x04\x00\x50\x20\x00\x05"
	for header, want := range map[string]int{
		"PROXY TCP4 192.0.2.1 203.0.113.7 56324 443\r\n": 204,
		"PROXY TCP4 192.0.2.1 203.0.113.7 56324 80\r\n":  301,
		v2 + "\x01\x00\x00\x00\x00":                      204,
		v2 + "\x00\x00\x00\x00\x00":                      301,
	} {
		c := s.Dial()
		for range 2 {
			c.Send(header + "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
			a := c.Answer("GET")
			if a.StatusCode != want || want == 301 && a.Header.Get("Location") != "https://a.test/x" {
				t.Errorf("%q: %s, %q", header, a.Status, a.Header.Get("Location"))
			}
			header = ""
		}
	}
}

var toHTTPS = https.Settings{HTTPS: "redirect"}

func TestRedirect(t *testing.T) {
	s := start(t, modes.Plain, toHTTPS, 443)
	mapped := start(t, modes.Plain, toHTTPS, 8443)
	behind := start(t, modes.Plain, toHTTPS, 8443, "127.0.0.0/8")
	for _, c := range []struct {
		s      *server.Server
		line   string
		fields []string
		status int
		to     string
		why    string
	}{
		{s, "GET /a%20b?x=1", nil, 301, "https://test.example/a%20b?x=1", ""},
		{s, "GET /a%2fb%3B%26%2B%3A%40//[?x=%2f&y=|", nil, 301,
			"https://test.example/a%2fb%3B%26%2B%3A%40//%5B?x=%2f&y=%7C", "as it was sent"},
		{s, "GET /a?", nil, 301, "https://test.example/a?", ""},
		{s, "HEAD /", nil, 301, "https://test.example/", ""},
		{s, "POST /form", []string{"Content-Length: 0"}, 308, "https://test.example/form",
			"keeps the method"},
		{mapped, "GET /", nil, 301, "https://test.example:8443/", "the port of the listener"},
		{s, "GET /error", nil, 301, "https://test.example/error", "before the routes"},
		{s, "GET /.well-known/acme-challenge/token", nil, 204, "", "a certificate authority"},
		{s, "GET /x/../.well-known/acme-challenge/token", nil, 204, "", "the cleaned path counts"},
		{s, "GET /.well-known/acme-challenge/../x", nil, 301,
			"https://test.example/.well-known/x", ""},
		{s, "GET /.well-known/acme-challengex", nil, 301,
			"https://test.example/.well-known/acme-challengex", ""},
		{s, "GET /", []string{"X-Forwarded-Proto: https"}, 301, "https://test.example/", "forged"},
		{behind, "GET /", []string{"X-Forwarded-Proto: https"}, 204, "", "has come by https"},
		{behind, "GET /", []string{"X-Forwarded-Proto: http", "X-Forwarded-Host: front.test:80"},
			301, "https://front.test/", "the proxy's host, and the usual port"},
	} {
		got := c.s.Request(c.line, c.fields, "")
		if got.StatusCode != c.status || got.Header.Get("Location") != c.to {
			t.Errorf("%s: got %d %q, want %d %q (%s)", c.line, got.StatusCode,
				got.Header.Get("Location"), c.status, c.to, c.why)
		}
	}
	if got := start(t, modes.OverTLS, toHTTPS, 443).Request("GET /", nil, ""); got.StatusCode != 204 {
		t.Errorf("over TLS: got %d", got.StatusCode)
	}
	c := s.Dial()
	c.Send("GET /x HTTP/1.0\r\n\r\n")
	if got := c.Answer("GET"); got.StatusCode != 400 {
		t.Errorf("without a host: got %d", got.StatusCode)
	}
}

func year(years int) *time.Duration {
	d := time.Duration(years) * 8760 * time.Hour
	return &d
}

func TestHSTS(t *testing.T) {
	set := https.Settings{HSTS: &https.HSTS{MaxAge: year(1), IncludeSubdomains: true, Preload: true}}
	const want = "max-age=31536000; includeSubDomains; preload"
	s := start(t, modes.OverTLS, set, 443)
	s.Panics.Expect()
	for line, want := range map[string]string{
		"GET /": want, "GET /error": want, "GET /panic": want, "GET /own": "max-age=0",
	} {
		if got := s.Request(line, nil, "").Header.Values("Strict-Transport-Security"); len(got) != 1 ||
			got[0] != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	plain := start(t, modes.Plain, set, 443)
	if got := plain.Request("GET /", nil, "").Header; got["Strict-Transport-Security"] != nil {
		t.Error("sent over http")
	}
	behind := start(t, modes.Plain, set, 443, "127.0.0.1/32")
	got := behind.Request("GET /", []string{"X-Forwarded-Proto: https"}, "").Header
	if got.Get("Strict-Transport-Security") != want {
		t.Error("not sent to a client that came by https to a proxy")
	}
}

func TestSettings(t *testing.T) {
	if m, err := https.New(https.Settings{}, nil); m != nil || err != nil {
		t.Errorf("nothing to do: got %t, %v", m != nil, err)
	}
	for _, c := range []struct {
		hsts https.HSTS
		want string
	}{
		{https.HSTS{}, `hsts: expected a max_age, as in { max_age = "8760h" }, which is a year`},
		{https.HSTS{MaxAge: year(1), Preload: true}, `hsts: with preload, expected ` +
			`include_subdomains = true and a max_age of "8760h" or more: ` +
			`the browsers' list takes no other hosts`},
		{https.HSTS{MaxAge: year(0), IncludeSubdomains: true, Preload: true}, `hsts: with preload, ` +
			`expected include_subdomains = true and a max_age of "8760h" or more: ` +
			`the browsers' list takes no other hosts`},
	} {
		_, err := https.New(https.Settings{HSTS: &c.hsts}, nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestAllocates(t *testing.T) {
	set := https.Settings{HTTPS: "redirect", HSTS: &https.HSTS{MaxAge: year(1)}}
	with := start(t, modes.OverTLS, set, 443)
	without := start(t, modes.OverTLS, https.Settings{}, 443)
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	if a, b := with.Allocs(get), without.Allocs(get); a > b+0.5 {
		t.Errorf("%v allocations, without the keys %v", a, b)
	}
}
