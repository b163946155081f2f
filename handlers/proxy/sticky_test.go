package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// numbered starts n origins that answer with their number.
func numbered(t *testing.T, n int) (all []*origin, addresses []string) {
	for i := range n {
		o := start(t,
			always(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nSet-Cookie: app=1\r\n\r\n%d", i)))
		all, addresses = append(all, o), append(addresses, o.addr)
	}
	return all, addresses
}

// visit asks with a cookie, and returns the answer and the cookie that it gives, "" for none.
func (f *front) visit(t *testing.T, cookie string) (body, given string) {
	t.Helper()
	fields := ""
	if cookie != "" {
		fields = "Cookie: other=x; srv=" + cookie + "; more=y\r\n"
	}
	g := f.ask("GET /", fields, "")
	if g.err != nil || g.status != 200 {
		t.Fatal(g)
	}
	resp := http.Response{Header: g.header}
	for _, c := range resp.Cookies() {
		if c.Name == "srv" {
			given = c.Value
		}
	}
	return g.body, given
}

func sticky(s *proxy.Settings) { s.Sticky.Name = "srv" }

// TestSticky: a client comes back to the address of its first request, and gets no second cookie. A
// cookie that was forged, changed, or is another route's, counts as none.
func TestSticky(t *testing.T) {
	_, a := numbered(t, 3)
	f := serve(t, modes.Direct, "/", a, sticky)
	for want := range 3 {
		body, cookie := f.visit(t, "")
		if body != fmt.Sprint(want) || len(cookie) != 32 {
			t.Fatalf("%q, cookie %q", body, cookie)
		}
		for range 4 {
			if again, second := f.visit(t, cookie); again != body || second != "" {
				t.Fatalf("%q, which %q was given for; another cookie %q", again, body, second)
			}
		}
	}
	_, good := f.visit(t, "")
	for i := range good {
		forged := good[:i] + string("AB"[i%2]) + good[i+1:]
		if forged == good {
			continue
		}
		if _, given := f.visit(t, forged); given == "" {
			t.Errorf("%q was taken, though %q was given", forged, good)
		}
	}
	for _, forged := range []string{"", "x", "*", good + good, good[:31], strings.Repeat("A", 32)} {
		if _, given := f.visit(t, forged); given == "" {
			t.Errorf("%q was taken", forged)
		}
	}
	other := serve(t, modes.Direct, "/", a, func(s *proxy.Settings) {
		sticky(s)
		s.Sticky.Secret = "another secret, of 32 bytes here"
	})
	if _, given := other.visit(t, good); given == "" {
		t.Error("a cookie was taken that another secret has signed")
	}
}

// TestStickyAttributes: the cookie has the attributes of the configuration, beside the
// application's cookies.
func TestStickyAttributes(t *testing.T) {
	_, a := numbered(t, 1)
	for _, tt := range []struct {
		change func(s *upstreams.Sticky)
		want   string
	}{
		{func(*upstreams.Sticky) {}, "; Path=/; HttpOnly; SameSite=Lax"},
		{func(s *upstreams.Sticky) {
			s.Expires, s.Domain, s.Path, s.HTTPOnly, s.SameSite, s.Secure = time.Hour, "test.example",
				"/app", false, "strict", "on"
		}, "; Path=/app; Domain=test.example; Max-Age=3600; Secure; SameSite=Strict"},
		{func(s *upstreams.Sticky) { s.SameSite = "none" }, "; Path=/; HttpOnly; Secure; SameSite=None"},
	} {
		f := serve(t, modes.Direct, "/", a, func(s *proxy.Settings) { sticky(s); tt.change(&s.Sticky) })
		cookies := f.get("/").header.Values("Set-Cookie")
		if len(cookies) != 2 || !strings.HasPrefix(cookies[0], "srv=") ||
			cookies[0][len("srv=")+32:] != tt.want || cookies[1] != "app=1" {
			t.Errorf("%q, want srv=...%q and app=1", cookies, tt.want)
		}
	}
}

// TestStickyExpires: after half of its time a cookie is renewed, after all of it it is no good.
func TestStickyExpires(t *testing.T) {
	_, a := numbered(t, 2)
	with := func(d time.Duration) *front {
		return serve(t, modes.Direct, "/", a, func(s *proxy.Settings) {
			sticky(s)
			s.Sticky.Expires, s.Sticky.Secret = d, "a secret of enough bytes"
		})
	}
	_, cookie := with(time.Hour).visit(t, "")
	if _, given := with(time.Hour).visit(t, cookie); given != "" {
		t.Error("a new cookie was given for a fresh one")
	}
	long := with(3 * time.Hour)
	long.visit(t, "") // whose turn it is changes
	if body, given := long.visit(t, cookie); body != "0" || given == "" {
		t.Errorf("%q; a cookie that is older than half of its time was not renewed", body)
	}
	_, short := with(time.Millisecond).visit(t, "")
	if _, given := with(time.Hour).visit(t, short); given == "" {
		t.Error("a cookie was taken whose time is over")
	}
	_, endless := with(0).visit(t, "")
	if _, given := with(time.Hour).visit(t, endless); given == "" {
		t.Error("a cookie without an end was taken where cookies have one")
	}
}

// TestStickyGone: if the address of a cookie does not work, or is not configured any more, the
// client is served by another one, with a new cookie.
func TestStickyGone(t *testing.T) {
	all, a := numbered(t, 3)
	f := serve(t, modes.Direct, "/", a, sticky)
	_, cookie := f.visit(t, "")
	all[0].stop()
	body, next := f.visit(t, cookie)
	if body == "0" || next == "" {
		t.Fatalf("%q, cookie %q", body, next)
	}
	if again, given := f.visit(t, next); again != body || given != "" {
		t.Errorf("%q after %q; cookie %q", again, body, given)
	}
	less := serve(t, modes.Direct, "/", a[1:], sticky) // as after a reload
	if again, given := less.visit(t, next); again != body || given != "" {
		t.Errorf("after a reload: %q after %q; cookie %q", again, body, given)
	}
	if _, given := less.visit(t, cookie); given == "" {
		t.Error("the cookie of an address that is gone was taken")
	}
}

// TestStickySettings: what is wrong is said of the key.
func TestStickySettings(t *testing.T) {
	for _, tt := range []struct {
		change func(s *proxy.Settings)
		err    string
	}{
		{func(s *proxy.Settings) { s.Sticky.Secret = "0123456789abcdef" },
			"sticky: missing: the name of the cookie"},
		{func(s *proxy.Settings) { s.Sticky.Name = "a b" }, "sticky: invalid Cookie.Name"},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Path = "a", "b" },
			`sticky: path: expected one that begins with a slash, not "b"`},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Domain = "a", "b;c" },
			"sticky: invalid Cookie.Domain"},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Secret = "a", "short" },
			"sticky: secret: expected at least 16 bytes, not 5"},
		{func(s *proxy.Settings) {
			s.Sticky.Name, s.Sticky.SameSite, s.Sticky.Secure = "a", "none", "off"
		},
			`sticky: browsers take no cookie with samesite = "none" and secure = "off"`},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Secure = "__Secure-a", "off" },
			`sticky: browsers take no cookie of the name __Secure-a with secure = "off"`},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Secure = "__host-a", "off" },
			`sticky: browsers take no cookie of the name __host-a with secure = "off"`},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Path = "__Host-a", "/x" },
			"sticky: browsers take no cookie of the name __Host-a with a domain or another path than /"},
		{func(s *proxy.Settings) { s.Sticky.Name, s.Sticky.Domain = "__Host-a", "example.com" },
			"sticky: browsers take no cookie of the name __Host-a with a domain or another path than /"},
		{func(s *proxy.Settings) { s.Balance = "hash" },
			`hash: missing: what balance = "hash" goes by, such as "{uri}"`},
		{func(s *proxy.Settings) { s.Hash = "{uri}" }, `hash: it has no effect without balance = "hash"`},
		{func(s *proxy.Settings) { s.Balance, s.Hash = "hash", "{nobody}" },
			`hash: "{nobody}": unknown placeholder {nobody} (known: {uri}, `},
		{func(s *proxy.Settings) { s.Balance, s.Hash = "hash", "{cookie.}" },
			`hash: "{cookie.}": unknown placeholder`},
		{func(s *proxy.Settings) { s.Balance, s.Hash = "hash", "$remote_addr" },
			`hash: "$remote_addr": unknown placeholder $remote_addr`},
		{func(s *proxy.Settings) { s.Balance, s.Hash = "hash", "x" },
			`hash: "x": expected a text with placeholders`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address = []string{"127.0.0.1:1"}
				tt.change(s)
			})
		if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}

// TestHashKeys: each placeholder of a key.
func TestHashKeys(t *testing.T) {
	_, a := numbered(t, 8)
	for key, variants := range map[string]func(i int) (line, fields string){
		"{path}":  func(i int) (string, string) { return fmt.Sprintf("GET /%d?x", i), "" },
		"{uri}":   func(i int) (string, string) { return fmt.Sprintf("GET /?%d", i), "" },
		"{query}": func(i int) (string, string) { return fmt.Sprintf("GET /?%d", i), "" },
		"{query.id}": func(i int) (string, string) {
			return fmt.Sprintf("GET /?t=%d&id=%d&id=0", rand.IntN(1000), i), ""
		},
		"{field.X-A}": func(i int) (string, string) { return "GET /", fmt.Sprintf("x-a: %d\r\n", i) },
		"{cookie.c}": func(i int) (string, string) {
			return "GET /", fmt.Sprintf("Cookie: b=1;c=%d\r\n", i)
		},
		"{host}{path}": func(i int) (string, string) { return fmt.Sprintf("GET /%d", i), "" },
	} {
		f := serve(t, modes.Direct, "/", a, func(s *proxy.Settings) { s.Balance, s.Hash = "hash", key })
		seen := map[string]bool{}
		for i := range 24 {
			line, fields := variants(i)
			body := f.ask(line, fields, "").body
			seen[body] = true
			line, fields = variants(i)
			if again := f.ask(line, fields, "").body; again != body {
				t.Errorf("%s: one key has led to %q and %q", key, body, again)
			}
		}
		if len(seen) < 4 {
			t.Errorf("%s: 24 keys have led to %d addresses of 8", key, len(seen))
		}
	}
	f := serve(t, modes.Direct, "/", a, func(s *proxy.Settings) { s.Balance = "ip_hash" })
	body := f.get("/").body
	for range 8 {
		if again := f.get("/x").body; again != body {
			t.Errorf("one client was served by %q and %q", body, again)
		}
	}
}
