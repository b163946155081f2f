package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// cached is a server with a cache, and what it logs.
type cached struct {
	*running
	log *logtext.Buffer
}

// serveCached starts a server that trusts its peers to name their clients, and keeps the answers of
// a site with these routes, in which the second of each pair of texts is put in the place of the
// first.
func serveCached(t *testing.T, routes string, pairs ...string) *cached {
	t.Helper()
	s := &cached{log: new(logtext.Buffer)}
	src := source()
	src.Cache = cache.NewStore()
	src.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	s.running = serve(t, src, `
[[listener]]
address = "127.0.0.1:0"
trusted_proxies = ["127.0.0.1"]
[[site]]
cache = true
`+strings.NewReplacer(pairs...).Replace(routes))
	return s
}

// ask sends a GET with some fields, such as "Cookie: a=b". The body of resp was read.
func (s *cached) ask(target string, fields ...string) (body, status string, resp *http.Response) {
	s.t.Helper()
	req, _ := http.NewRequest("GET", "http://"+s.at+target, nil)
	for _, field := range fields {
		if name, value, ok := strings.Cut(field, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	resp = must.Get(http.DefaultClient.Do(req))(s.t)
	return must.Body(s.t, resp), resp.Header.Get("Cache-Status"), resp
}

// proxied is a handler behind a connection that begins with a line of the PROXY protocol.
func proxied(t *testing.T) (address string) {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				client := strings.Fields(line)[2]
				fmt.Fprintf(c,
					"HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=100\r\nContent-Length: "+
						"%d\r\n\r\n%s", len(client), client)
			}()
		}
	}()
	return ln.Addr().String()
}

// TestWhatARouteSteersBy: what chooses a route's upstream, or is sent to it by placeholders, is
// part of the key: what one client brings to the cache is for those alone for whom the same would
// be asked.
func TestWhatARouteSteersBy(t *testing.T) {
	app := func(name string) *httptest.Server {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=100")
			sni := ""
			if r.TLS != nil {
				sni = r.TLS.ServerName
			}
			fmt.Fprint(w, name, " ", r.Header.Get("X-Client"), " ", sni)
		})
		s := httptest.NewUnstartedServer(h)
		if name == "tls" {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s
	}
	s := serveCached(t, `
[[site.route]]
prefix = "/cookie"
module = "proxy"
address = "AAA"
split = [{ name = "beta", cookie = { v = "beta" }, address = ["BBB"] }]
[[site.route]]
prefix = "/own"
module = "proxy"
address = "AAA"
split = [{ name = "beta", cookie = { v = "beta" }, address = ["BBB"] }]
cache = { key = "{path}" }
[[site.route]]
prefix = "/share"
module = "proxy"
address = "AAA"
split_by = "{field.x-user}"
split = [{ name = "beta", share = 50, address = ["BBB"] }]
[[site.route]]
prefix = "/tls"
module = "proxy"
address = "TLS"
tls = { name = "{field.x-tenant}.example", insecure = true }
[[site.route]]
prefix = "/sent"
module = "proxy"
address = "AAA"
request_headers = { X-Client = "{address}" }
[[site.route]]
prefix = "/added"
module = "proxy"
address = "AAA"
add_request_headers = { X-Client = ["{address}"] }
[[site.route]]
prefix = "/proxy"
module = "proxy"
address = "PROXY"
proxy_protocol = "v1"
[[site.route]]
prefix = "/hash"
module = "proxy"
address = ["AAA", "BBB"]
balance = "hash"
hash = "{cookie.tenant}"
[[site.route]]
prefix = "/id"
module = "proxy"
address = "AAA"
request_headers = { X-Trace = "{id}", X-Where = "{host}{uri}" }
`, "AAA", app("a").Listener.Addr().String(), "BBB", app("b").Listener.Addr().String(),
		"TLS", app("tls").URL, "PROXY", proxied(t))
	for _, tt := range []struct{ path, one, other, body, otherBody string }{
		{"/cookie", "Cookie: v=beta", "Cookie: v=x", "b  ", "a  "},
		{"/cookie?", "", "Cookie: w=x; v=beta", "a  ", "b  "},
		{"/own", "Cookie: v=beta", "", "b  ", "a  "},
		{"/share", "X-User: 1", "X-User: 3", "b  ", "a  "},
		{"/tls", "X-Tenant: one", "X-Tenant: two", "tls  one.example", "tls  two.example"},
		{"/sent", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "a 192.0.2.1 ",
			"a 192.0.2.2 "},
		{"/added", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "a 192.0.2.1 ",
			"a 192.0.2.2 "},
		{"/proxy", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "192.0.2.1", "192.0.2.2"},
	} {
		for range 2 { // the second time from the cache
			if body, _, _ := s.ask(tt.path, tt.one); body != tt.body {
				t.Errorf("%s, %s: %q, want %q", tt.path, tt.one, body, tt.body)
			}
			if body, _, _ := s.ask(tt.path, tt.other); body != tt.otherBody {
				t.Errorf("%s, %s behind %s: %q, want %q", tt.path, tt.other, tt.one, body, tt.otherBody)
			}
		}
		if _, status, _ := s.ask(tt.path, tt.other); !strings.Contains(status, "; hit") {
			t.Errorf("%s, %s: not kept for those that would get the same: %s", tt.path, tt.other, status)
		}
	}
	// Which tenant is whose depends on the ports. Each has its own answer from the cache, too.
	where := make(map[string]int)
	for i := range 40 {
		field := fmt.Sprint("Cookie: tenant=", i%20)
		body, status, _ := s.ask("/hash", field)
		if where[body]++; (i >= 20) != strings.Contains(status, "; hit") {
			t.Errorf("%s: %s", field, status)
		}
	}
	if len(where) != 2 {
		t.Errorf("hash: all tenants get the answer of one: %v", where)
	}
	// What tells nobody more than the key does is no part of it, and neither is the group's name
	// alone.
	for path, fields := range map[string][2]string{
		"/id":       {"Cookie: a=1", "Cookie: a=2"},
		"/cookie/2": {"Cookie: v=beta; a=1", "Cookie: v=beta"},
		"/sent/2":   {"X-Forwarded-For: 192.0.2.3", "X-Forwarded-For: 192.0.2.3"},
	} {
		s.ask(path, fields[0])
		if _, status, _ := s.ask(path, fields[1]); !strings.Contains(status, "; hit") {
			t.Errorf("%s: %s", path, status)
		}
	}
	for _, path := range []string{"/sent", "/added", "/proxy"} {
		if want := fmt.Sprintf("route=%s ", path); !strings.Contains(s.log.String(),
			"each client's address has answers of its own") ||
			!strings.Contains(s.log.String(), want) {
			t.Errorf("no warning for %s:\n%s", path, s.log)
		}
	}
}

// TestWhatScriptsAreTold: parameters that say more of a request than its URL are part of the key.
func TestWhatScriptsAreTold(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				size, _ := r.ReadString(':') // of a netstring, which may come in pieces
				n, err := strconv.Atoi(strings.TrimSuffix(size, ":"))
				b := make([]byte, n)
				if _, err2 := io.ReadFull(r, b); err != nil || err2 != nil {
					return
				}
				_, told, _ := strings.Cut(string(b), "TOLD\x00")
				told, _, _ = strings.Cut(told, "\x00")
				fmt.Fprintf(c, "Content-Length: %d\r\nCache-Control: max-age=100\r\n\r\n%s", len(told), told)
			}()
		}
	}()
	s := serveCached(t, `
[[site.route]]
prefix = "/"
module = "scgi"
address = "AAA"
params = { TOLD = "{address}" }
`, "AAA", ln.Addr().String())
	for range 2 {
		for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
			if body, _, _ := s.ask("/", "X-Forwarded-For: "+client); body != client {
				t.Errorf("%q, want %q", body, client)
			}
		}
	}
}

// TestStickyBehindCache: the cookie that leads a client back to its upstream is for the client that
// gets it. The answer beside it is kept for all that have no cookie, and for those of the same
// upstream.
func TestStickyBehindCache(t *testing.T) {
	var addresses []string
	for i := range 2 {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=100")
			if r.URL.Path == "/login" {
				w.Header().Set("Set-Cookie", "session=1")
			}
			fmt.Fprint(w, i)
		}))
		defer app.Close()
		addresses = append(addresses, app.Listener.Addr().String())
	}
	s := serveCached(t, `
[[site.route]]
prefix = "/"
module = "proxy"
address = ["AAA", "BBB"]
sticky = { name = "srv" }
`, "AAA", addresses[0], "BBB", addresses[1])
	get := func(path, cookie string) (body, status string, given []string) {
		t.Helper()
		var fields []string
		if cookie != "" {
			fields = []string{"Cookie: srv=" + cookie}
		}
		body, status, resp := s.ask(path, fields...)
		for _, c := range resp.Cookies() {
			given = append(given, c.Name)
			if c.Name == "srv" {
				given[len(given)-1] += "=" + c.Value
			}
		}
		return body, status, given
	}
	first, status, given := get("/", "")
	if len(given) != 1 || !strings.HasPrefix(given[0], "srv=") ||
		!strings.HasSuffix(status, "stored") {
		t.Fatalf("%q, %s, cookies %q", first, status, given)
	}
	for range 2 {
		if again, status, given := get("/", ""); again != first || !strings.Contains(status, "; hit") ||
			len(given) > 0 {
			t.Errorf("without a cookie: %q, %s, cookies %q", again, status, given)
		}
	}
	home := strings.TrimPrefix(given[0], "srv=")
	for _, want := range []string{"stored", "hit; ttl=100"} {
		if own, status, given := get("/", home); own != first || !strings.HasSuffix(status, want) ||
			len(given) > 0 {
			t.Errorf("with its cookie: %q, %s, want %s; cookies %q", own, status, want, given)
		}
	}
	for range 2 { // what the application sets is for one client
		if _, status, given := get("/login", ""); strings.Contains(status, "stored") ||
			strings.Contains(status, "hit") || len(given) != 2 {
			t.Errorf("/login: %s, cookies %q", status, given)
		}
	}
}
