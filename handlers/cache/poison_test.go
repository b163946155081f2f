package cache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
)

// TestPoisoning: what one client makes of an answer by what the key might lack, no other one gets.
// The handler echoes all that an application may look at.
func TestPoisoning(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		h := req.Header()
		return w.Text(200, fmt.Sprint(n, " ", req.Host(), " ", req.Target(), h.Get("X-Forwarded-Host"),
			h.Get("x_forwarded_host"), h.Get("X-Original-URL"), h.Get("X-Rewrite-URL"),
			h.Get("X-Forwarded-Scheme"), h.Get("X-Forwarded-Prefix"), h.Get("X-HTTP-Method-Override"),
			h.Get("Forwarded"), h.Get("Front-End-Https"), h.Get("CF-Visitor"),
			h.Get("CloudFront-Forwarded-Proto"), h.Get("X-Arr-Ssl"), h.Get("X-Invoke-Path"),
			h.Get("front_end_https")))
	}}
	for _, tt := range []struct {
		name        string
		evil, plain string // requests; the first asks first
	}{
		{"forwarded host", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"in CGI", "GET / HTTP/1.1\r\nHost: h\r\nX_Forwarded_Host: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"original URL", "GET / HTTP/1.1\r\nHost: h\r\nX-Original-URL: /admin\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"method", "GET / HTTP/1.1\r\nHost: h\r\nX-HTTP-Method-Override: POST\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"Forwarded", "GET / HTTP/1.1\r\nHost: h\r\nForwarded: host=evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"port", "GET / HTTP/1.1\r\nHost: h:1234\r\n", "GET / HTTP/1.1\r\nHost: h\r\n"},
		{"absolute", "GET http://h/x HTTP/1.1\r\nHost: h\r\n", "GET /x HTTP/1.1\r\nHost: h\r\n"},
		{"absolute, another host", "GET http://evil/ HTTP/1.1\r\nHost: h\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"empty port", "GET //h/x HTTP/1.1\r\nHost: hhttp:\r\n",
			"GET http://h/x HTTP/1.1\r\nHost: h\r\n"},
		{"dot segments", "GET /a/../account HTTP/1.1\r\nHost: h\r\n",
			"GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"encoded slash", "GET /a%2Fb HTTP/1.1\r\nHost: h\r\n", "GET /a/b HTTP/1.1\r\nHost: h\r\n"},
		{"encoded letter", "GET /%61 HTTP/1.1\r\nHost: h\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n"},
		{"suffix", "GET /account/x.css HTTP/1.1\r\nHost: h\r\n", "GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"path parameter", "GET /account;x.css HTTP/1.1\r\nHost: h\r\n",
			"GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"encoded line end", "GET /a%0d%0aX:y HTTP/1.1\r\nHost: h\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n"},
		{"query separators", "GET /?a=1;b=2 HTTP/1.1\r\nHost: h\r\n",
			"GET /?a=1&b=2 HTTP/1.1\r\nHost: h\r\n"},
		{"query twice", "GET /?a=1&a=2 HTTP/1.1\r\nHost: h\r\n", "GET /?a=2&a=1 HTTP/1.1\r\nHost: h\r\n"},
		{"a name in codes", "GET /?%61=2&a=1 HTTP/1.1\r\nHost: h\r\n",
			"GET /?a=1&%61=2 HTTP/1.1\r\nHost: h\r\n"},
		{"a name of PHP", "GET /?a_b=2&a.b=1 HTTP/1.1\r\nHost: h\r\n",
			"GET /?a.b=1&a_b=2 HTTP/1.1\r\nHost: h\r\n"},
		{"a name without case", "GET /?B=0&a=2&A=1 HTTP/1.1\r\nHost: h\r\n",
			"GET /?B=0&A=1&a=2 HTTP/1.1\r\nHost: h\r\n"},
		{"a list", "GET /?a[0]=2&a[]=1 HTTP/1.1\r\nHost: h\r\n",
			"GET /?a[]=1&a[0]=2 HTTP/1.1\r\nHost: h\r\n"},
		{"a parameter in another one", "GET /?u=x;a=2&a=1 HTTP/1.1\r\nHost: h\r\n",
			"GET /?a=1&u=x;a=2 HTTP/1.1\r\nHost: h\r\n"},
		{"a parameter behind a semicolon", "GET /?a=1&u=x;a=evil HTTP/1.1\r\nHost: h\r\n",
			"GET /?a=1&u=x HTTP/1.1\r\nHost: h\r\n"},
		{"two question marks", "GET /?a=1?a=evil HTTP/1.1\r\nHost: h\r\n",
			"GET /?a=1 HTTP/1.1\r\nHost: h\r\n"},
		{"a backslash", "GET /account\\x.css HTTP/1.1\r\nHost: h\r\n",
			"GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"a zero", "GET /account%00.css HTTP/1.1\r\nHost: h\r\n", "GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"two slashes", "GET //account HTTP/1.1\r\nHost: h\r\n", "GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"encoded dot segments", "GET /a/%2e%2e/account HTTP/1.1\r\nHost: h\r\n",
			"GET /account HTTP/1.1\r\nHost: h\r\n"},
		{"rewritten URL", "GET / HTTP/1.1\r\nHost: h\r\nX-Rewrite-URL: /admin\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"forwarded scheme", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Scheme: http\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"forwarded prefix", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Prefix: /evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"scheme of IIS", "GET / HTTP/1.1\r\nHost: h\r\nFront-End-Https: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"scheme of IIS in CGI", "GET / HTTP/1.1\r\nHost: h\r\nfront_end_https: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"scheme of Cloudflare", "GET / HTTP/1.1\r\nHost: h\r\nCf-Visitor: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"scheme of CloudFront", "GET / HTTP/1.1\r\nHost: h\r\nCloudFront-Forwarded-Proto: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"scheme of ARR", "GET / HTTP/1.1\r\nHost: h\r\nX-ARR-SSL: evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"path of Next.js", "GET / HTTP/1.1\r\nHost: h\r\nX-Invoke-Path: /evil\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\n"},
		{"question mark", "GET /? HTTP/1.1\r\nHost: h\r\n", "GET / HTTP/1.1\r\nHost: h\r\n"},
	} {
		s := start(t, modes.Direct, cache.Settings{SortQuery: true}, o.serve)
		first := s.Exchange(tt.evil + "Connection: close\r\n\r\n")
		second := s.Exchange(tt.plain + "Connection: close\r\n\r\n")
		_, a, _ := strings.Cut(first, "\r\n\r\n")
		_, b, _ := strings.Cut(second, "\r\n\r\n")
		if a == b || strings.Contains(b, "evil") || strings.Contains(second, "; hit") {
			t.Errorf("%s: %q, then %q", tt.name, a, second)
		}
		if third := s.Exchange(tt.plain + "Connection: close\r\n\r\n"); !strings.HasSuffix(third, b) ||
			!strings.Contains(third, "; hit") {
			t.Errorf("%s: not kept for those that ask the same: %q", tt.name, third)
		}
	}
}

// TestFatGet: a GET with a body neither gets what is kept nor leaves anything.
func TestFatGet(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		b := make([]byte, 10)
		k, _ := req.Body().Read(b)
		return w.Text(200, fmt.Sprint(n, string(b[:k])))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	for i, body := range []string{"a=evil", "", "a=evil", ""} {
		var f []string
		if body != "" {
			f = append(f, fmt.Sprint("Content-Length: ", len(body)))
		}
		a := s.Request("GET /", f, body)
		if want := []string{"1a=evil", "2", "3a=evil", "2"}[i]; a.Text != want {
			t.Errorf("step %d: %q, want %q", i, a.Text, want)
		}
	}
}

// TestHeadIsNoAnswer: an answer to HEAD, whatever a handler makes of it, is never one to GET.
func TestHeadIsNoAnswer(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		if req.Method() == "HEAD" {
			return 200
		}
		return w.Text(200, "body")
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	s.run(t, o, []step{
		{line: "HEAD /", want: "200  lwango; fwd=uri-miss"},
		{line: "/", want: "200 body lwango; fwd=uri-miss; stored"},
		{line: "HEAD /", want: "200  lwango; hit; ttl=100", has: "Content-Length: 4", number: 2},
	})
}

// TestSplitting: an answer whose fields are not valid is none.
func TestSplitting(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "X-Name: a\r\nSet-Cookie: evil=1\r\n\r\nbody")
		w.Write([]byte("text"))
		return 200
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	for range 2 {
		if a, said := get(t, s, "/"); a.StatusCode != 500 || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s, %v", said, a.Header)
		}
	}
	if n := s.stats().Fills; n != 0 {
		t.Errorf("%d answers are kept", n)
	}
}

// TestManyVariants: the variants of one URL are bounded, and the newest ones stay.
func TestManyVariants(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Vary: X-Any")
		return w.Text(200, fmt.Sprint(n))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	c := s.Dial()
	const batch = 100
	variants := 10_000
	if race.Enabled {
		variants = 1000
	}
	for i := 0; i < variants; i += batch {
		var all strings.Builder
		for j := range batch {
			fmt.Fprintf(&all, "GET / HTTP/1.1\r\nHost: test.example\r\nX-Any: %d\r\n\r\n", i+j)
		}
		c.Send(all.String())
		for range batch {
			c.Answer("GET")
		}
	}
	if n := s.stats(); n.MemoryObjects > 32 || n.Filling > 0 || n.MemoryBytes > 1<<20 {
		t.Errorf("%+v", n)
	}
	if a, _ := get(t, s, "/", fmt.Sprintf("X-Any: %d", variants-1)); a.Text != fmt.Sprint(variants) {
		t.Errorf("%q", a.Text)
	}
}

// TestLongKeys: a request with a key that is too long, by its target or by a key of the operator's,
// goes past the cache. It is answered.
func TestLongKeys(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		return w.Text(200, fmt.Sprint(n))
	}}
	const long = 64 << 10
	for _, key := range []string{"", "{uri}"} {
		c := &cached{store: open(t)}
		m := must.Get(cache.New(c.store, cache.Settings{Key: key}, handlers.Env{}))(t)
		c.Server = server.Start(t, modes.Direct, conn.Config{Handler: m(o.serve),
			Limits: conn.Limits{MaxHeaderSize: 1 << 20}})
		for _, tt := range []struct {
			size int
			kept bool
		}{{long, false}, {9 << 10, false}, {7 << 10, true}} {
			target := "/" + strings.Repeat("x", tt.size)
			first, _ := get(t, c, target)
			if again, said := get(t, c, target); (again.Text == first.Text) != tt.kept ||
				again.StatusCode != 200 {
				t.Errorf("key %q, %d bytes: %.100s", key, tt.size, said)
			}
		}
		if n := c.stats(); n.MemoryObjects != 1 {
			t.Errorf("key %q: %+v", key, n)
		}
	}
}

// TestForwardedIsNotKept: what an application lets another handler answer is for whom it has
// chosen.
func TestForwardedIsNotKept(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		status, err := req.Layer().Forward("/secret", w, func(_ *conn.Request, w *conn.Response) int {
			return w.Text(200, fmt.Sprint("secret ", n))
		})
		if err != nil {
			return 500
		}
		return status
	}}
	s := start(t, modes.Direct, cache.Settings{TTL: map[string]time.Duration{"any": time.Minute}},
		o.serve)
	for i := range 2 {
		if a, said := get(t, s, "/"); a.Text != fmt.Sprint("secret ", i+1) {
			t.Error(said)
		}
	}
}

// TestRewritten: beside a rewritten target the one that was sent counts, since the application sees
// it.
func TestRewritten(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		return w.Text(200, req.Target()+" "+req.Path())
	}}
	c := &cached{store: open(t)}
	m := must.Get(cache.New(c.store, cache.Settings{}, handlers.Env{}))(t)
	inner := m(o.serve)
	c.Server = serveAll(t, func(req *conn.Request, w *conn.Response) int {
		if err := req.Layer().Rewrite("/index.php"); err != nil {
			return 500
		}
		return inner(req, w)
	})
	for _, target := range []string{"/a", "/b", "/index.php", "/a"} {
		if a, said := get(t, c, target); a.Text != target+" /index.php" {
			t.Error(said)
		}
	}
	if n := o.n.Load(); n != 3 {
		t.Errorf("%d requests to the handler", n)
	}
}

// TestPoisoningByOwnKey: a key of the operator's tells what is sent on from what is not, where its
// placeholders do not.
func TestPoisoningByOwnKey(t *testing.T) {
	for _, tt := range []struct {
		name        string
		evil, plain string // requests; the first asks first
		same        bool   // both get the same answer
	}{
		{"encoded slash", "GET /a%2Fb HTTP/1.1\r\nHost: h\r\n", "GET /a/b HTTP/1.1\r\nHost: h\r\n",
			false},
		{"encoded letter", "GET /%61 HTTP/1.1\r\nHost: h\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n", false},
		{"two slashes", "GET /a//b HTTP/1.1\r\nHost: h\r\n", "GET /a/b HTTP/1.1\r\nHost: h\r\n", false},
		{"slashes in front", "GET //b HTTP/1.1\r\nHost: h\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n", false},
		{"dot segments", "GET /a/../b HTTP/1.1\r\nHost: h\r\n", "GET /b HTTP/1.1\r\nHost: h\r\n", false},
		{"encoded dot segments", "GET /a/%2e%2e/b HTTP/1.1\r\nHost: h\r\n",
			"GET /b HTTP/1.1\r\nHost: h\r\n", false},
		{"absolute", "GET http://h/x HTTP/1.1\r\nHost: h\r\n", "GET /x HTTP/1.1\r\nHost: h\r\n", false},
		{"port", "GET /x HTTP/1.1\r\nHost: h:1234\r\n", "GET /x HTTP/1.1\r\nHost: h\r\n", false},
		{"capitals", "GET /x HTTP/1.1\r\nHost: H\r\n", "GET /x HTTP/1.1\r\nHost: h\r\n", false},
		{"what it leaves out", "GET /x?y HTTP/1.1\r\nHost: h\r\n", "GET /x?z HTTP/1.1\r\nHost: www.h\r\n",
			true},
		{"question mark", "GET /x? HTTP/1.1\r\nHost: h\r\n", "GET /x HTTP/1.1\r\nHost: h\r\n", false},
		{"encoded as it must be", "GET /%C3%A4%20 HTTP/1.1\r\nHost: [::1]\r\n",
			"GET /%C3%A4%20 HTTP/1.1\r\nHost: h\r\n", true},
	} {
		for _, key := range []string{"{path}", "{scheme}{uri}", "{path}{query}", "x"} {
			o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
				fields(w, "Cache-Control: max-age=100")
				return w.Text(200, fmt.Sprint(n, " ", req.Host(), " ", req.Target()))
			}}
			s := start(t, modes.Direct, cache.Settings{Key: key}, o.serve)
			first := s.Exchange(tt.evil + "Connection: close\r\n\r\n")
			second := s.Exchange(tt.plain + "Connection: close\r\n\r\n")
			_, a, _ := strings.Cut(first, "\r\n\r\n")
			_, b, _ := strings.Cut(second, "\r\n\r\n")
			if same := tt.same &&
				!(strings.ContainsAny(key, "uq") && strings.Contains(tt.evil, "?")); (a == b) != same {
				t.Errorf("%s, key %s: %q, then %q", tt.name, key, a, b)
			}
			if third := s.Exchange(tt.plain + "Connection: close\r\n\r\n"); !strings.HasSuffix(third, b) ||
				!strings.Contains(third, "; hit") {
				t.Errorf("%s: not kept for those that ask the same: %q", tt.name, third)
			}
		}
	}
}

// TestRewrittenByOwnKey: beside a rewritten path, of which the key is made, the one that was sent
// counts, without the query.
func TestRewrittenByOwnKey(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		return w.Text(200, req.Target()+" "+req.Path())
	}}
	c := &cached{store: open(t)}
	m := must.Get(cache.New(c.store, cache.Settings{Key: "{path}"}, handlers.Env{}))(t)
	inner := m(o.serve)
	c.Server = serveAll(t, func(req *conn.Request, w *conn.Response) int {
		if err := req.Layer().Rewrite("/index.php"); err != nil {
			return 500
		}
		return inner(req, w)
	})
	for i, target := range []string{"/a?x", "/b", "/a?y", "/index.php"} {
		if a, said := get(t, c, target); a.Text != []string{"/a?x", "/b", "/a?x", "/index.php"}[i]+
			" /index.php" {
			t.Error(said)
		}
	}
}

// TestHostAsItWasSent: a redirect to the same name in small letters, which a client has got that
// has sent capital ones, is no answer to those that have not. What is kept of a URL is purged for
// all.
func TestHostAsItWasSent(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=100")
			if req.Host() != "h.example" {
				fields(w, "Location: http://h.example/")
				return 301
			}
			return w.Text(200, "home")
		}}
		s := start(t, m, cache.Settings{}, o.serve)
		ask := func(host string) string {
			c := s.Dial()
			defer c.Close()
			a := c.Do("GET", "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			return fmt.Sprint(a.StatusCode, " ", a.Header.Get("Cache-Status"))
		}
		for _, want := range []string{"fwd=uri-miss; stored", "hit; ttl=100"} {
			for _, host := range []string{"H.Example", "h.example"} {
				status := map[string]int{"H.Example": 301, "h.example": 200}[host]
				if got := ask(host); got != fmt.Sprint(status, " lwango; ", want) {
					t.Errorf("%s: %s", host, got)
				}
			}
		}
		must.Do(t, s.store.Purge(cache.Purge{URLs: []string{"//h.example/"}}))
		if got := ask("H.Example"); got != "301 lwango; fwd=uri-miss; stored" {
			t.Errorf("purged: %s", got)
		}
	})
}

// TestFieldsOfTheConnection: to the handler, fields are what they are without a cache. Which of
// them are not sent on, Connection says, so a request with it leaves nothing for others.
func TestFieldsOfTheConnection(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Vary: Accept-Language, Content-Type")
		h := req.Header()
		return w.Text(200, fmt.Sprint(h.Get("Content-Type"), " ", h.Get("Accept-Language")))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	s.run(t, o, []step{
		{line: "/; Connection: Accept-Language; Accept-Language: de", want: "200  de lwango; fwd=bypass"},
		{line: "/; Connection: keep-alive, TE; Accept-Language: de",
			want: "200  de lwango; fwd=uri-miss; stored"},
		{line: "/; Content-Type: a/b; Accept-Language: de",
			want: "200 a/b de lwango; fwd=vary-miss; stored"},
		{line: "/; Content-Type: a/b; Accept-Language: de", want: "200 a/b de lwango; hit; ttl=100"},
		{line: "/; Accept-Language: de", want: "200  de lwango; hit; ttl=100"},
	})
}
