package mirror_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/mirror"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// site is a server whose route "/" has the mirror, and whose route "/copy" gets the copies.
type site struct {
	*server.Server
	told
	copies chan string
}

// told is what is around the route.
type told struct {
	around.None
	seen *[]atomic.Int64
}

func (t told) Counts(k *metrics.Kind, _ string) []atomic.Int64 {
	*t.seen = k.New()
	return *t.seen
}

func start(t *testing.T, m modes.Mode, set mirror.Settings, real, other conn.Handler) *site {
	t.Helper()
	return startBehind(t, m, set, nil, real, other)
}

// startBehind has what front returns in front of the mirror.
func startBehind(t *testing.T, m modes.Mode, set mirror.Settings,
	front func(*handlers.SiteRoutes) handlers.Middleware, real, other conn.Handler) *site {
	t.Helper()
	s := &site{told: told{seen: new([]atomic.Int64)}, copies: make(chan string, 1000)}
	set.To = "/copy"
	routes := &handlers.SiteRoutes{All: []handlers.Route{{Prefix: "/"}, {Prefix: "/copy"}}}
	mw := must.Get(mirror.New(set, handlers.Env{Prefix: "/",
		Process: around.In(around.Context{Process: s.told, Routes: routes, Route: &routes.All[0]})}))(t)
	if other == nil {
		other = func(req *conn.Request, resp *conn.Response) int {
			body, err := io.ReadAll(req.Body())
			h := req.Header()
			s.copies <- fmt.Sprint(req.Method(), " ", req.Target(), " ", req.Path(), " ", req.RawQuery(),
				" ", req.Host(), " ", h.Get("Content-Type"), " ", h.Get("X-Seen"), h.Get("Expect"),
				h.Get("Content-Length"), h.Get("Transfer-Encoding"), " ", req.ContentLength(), " ",
				req.Layer().Internal(), " ", string(body), " ", err)
			resp.WriteString(strings.Repeat("nobody gets this", 50_000))
			return 200
		}
	}
	real = mw(real)
	if front != nil {
		real = front(routes)(real)
	}
	router, err := handlers.NewRouter([]handlers.Site{{Around: routes.Inner, Routes: []handlers.Route{
		{Prefix: "/", Handler: real}, {Prefix: "/copy", Handler: other}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = server.Start(t, m, conn.Config{Handler: router.Serve})
	return s
}

// counts are what has been counted.
func (s *site) counts() [5]int64 {
	var all [5]int64
	for i := range *s.seen {
		all[i] = (*s.seen)[i].Load()
	}
	return all
}

func (s *site) await(t *testing.T, what string, want [5]int64) {
	t.Helper()
	wait.Until(t, fmt.Sprint(what, ": ", want), func() bool { return s.counts() == want })
}

func echo(req *conn.Request, resp *conn.Response) int {
	req.Header().Set("X-Seen", "by the real one") // which is no part of the copy
	if _, err := io.Copy(resp, req.Body()); err != nil {
		return 400
	}
	fmt.Fprint(resp, "real ", req.Target())
	return 200
}

// TestCopies: a copy has all that the request has, whatever its route has done meanwhile, and its
// answer goes nowhere.
func TestCopies(t *testing.T) { modes.Run(t, testCopies) }

func testCopies(t *testing.T, m modes.Mode) {
	s := start(t, m, mirror.Settings{MaxBodySize: 8}, echo, nil)
	for i, tt := range []struct {
		line, body string
		fields     []string
		want       string
	}{
		{"GET /a/b?x=%20y", "", nil,
			"GET /copy/a/b?x=%20y /copy/a/b x=%20y test.example   0 true  <nil>"},
		{"DELETE /a%2Fb/%41", "", nil,
			"DELETE /copy/a%2Fb/%41 /copy/a/b/A  test.example   0 true  <nil>"},
		{"POST /x", "12345678", []string{"Content-Length: 8", "Content-Type: a/b"},
			"POST /copy/x /copy/x  test.example a/b  8 true 12345678 <nil>"},
		{"PUT /x", "5\r\n12345\r\n1\r\n6\r\n0\r\n\r\n", []string{"Transfer-Encoding: chunked"},
			"PUT /copy/x /copy/x  test.example   6 true 123456 <nil>"},
		{"POST /x", "0\r\n\r\n", []string{"Transfer-Encoding: chunked"},
			"POST /copy/x /copy/x  test.example   0 true  <nil>"},
		{"GET /copier", "", nil, "GET /copy/copier /copy/copier  test.example   0 true  <nil>"},
	} {
		if a := s.Request(tt.line, tt.fields, tt.body); a.StatusCode != 200 ||
			!strings.Contains(a.Text, "real /") {
			t.Fatalf("%s: %s, %q", tt.line, a.Status, server.Clip(a.Text))
		}
		if got := <-s.copies; got != tt.want {
			t.Errorf("%s\ngot  %q\nwant %q", tt.line, got, tt.want)
		}
		s.await(t, tt.line, [5]int64{0, int64(i + 1), 0, 0, 0})
	}
	before := s.counts()
	// What is asked for at the route of the copies is no copy; nor is a WebSocket copied.
	s.Request("GET /copy/x", nil, "")
	if got := <-s.copies; !strings.Contains(got, " false ") {
		t.Errorf("a client's request: %s", got)
	}
	if !m.HTTP2 {
		s.Request("GET /ws", []string{"Connection: Upgrade", "Upgrade: WebSocket"}, "")
	}
	if got := s.counts(); got != before {
		t.Errorf("%v, want %v", got, before)
	}
	// Of larger bodies there is no copy, and it is counted: by the length, or as they come.
	s.Request("POST /x", []string{"Content-Length: 9"}, "123456789")
	s.Request("POST /x", []string{"Transfer-Encoding: chunked"}, "9\r\n123456789\r\n0\r\n\r\n")
	before[4] += 2
	if got := s.counts(); got != before {
		t.Errorf("bodies that are too large: %v, want %v", got, before)
	}
}

// TestBodies: where nobody has read all of a body, there is no copy, and with max_body_size = -1
// there is none of a request with a body. A handler of net/http reads as others do.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := start(t, modes.Direct, mirror.Settings{}, func(req *conn.Request, resp *conn.Response) int {
		if _, err := io.ReadFull(req.Body(), make([]byte, 3)); err != nil {
			return 400
		}
		return 200
	}, nil)
	s.Request("POST /x", []string{"Content-Length: 8"}, "12345678")
	s.await(t, "a body that was not read", [5]int64{4: 1})
	s.Request("POST /x", []string{"Content-Length: 3"}, "123")
	if got := <-s.copies; !strings.Contains(got, " 3 true 123 ") {
		t.Error(got)
	}
	s = start(t, modes.Direct, mirror.Settings{MaxBodySize: -1}, echo, nil)
	s.Request("POST /x", []string{"Content-Length: 3"}, "123")
	s.Request("POST /x", []string{"Transfer-Encoding: chunked"}, "0\r\n\r\n")
	s.await(t, "bodies at all", [5]int64{4: 2})
	s.Request("GET /x", nil, "")
	<-s.copies

	real := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	s = start(t, modes.Several, mirror.Settings{MaxBodySize: 1 << 20}, real, nil)
	body := strings.Repeat("0123456789", 10_000)
	for range 20 {
		if a := s.Request("POST /x", []string{"Content-Length: 100000"}, body); a.Text != body {
			t.Fatal(a.Status)
		}
		if got := <-s.copies; !strings.Contains(got, " 100000 true "+body+" ") {
			t.Fatal(server.Clip(got))
		}
	}
}

// TestHanging: copies that hang, fail or panic are nothing to the requests. There are so many of
// them and no more, for so long and no longer, and a stop does not wait for them.
func TestHanging(t *testing.T) {
	t.Parallel()
	hang := new(loop.Promise[int])
	s := start(t, modes.Direct, mirror.Settings{MaxRequests: 3, Timeout: time.Minute}, echo,
		func(req *conn.Request, resp *conn.Response) int {
			switch req.Path() {
			case "/copy/500":
				return 500
			case "/copy/panic":
				panic("of a copy")
			case "/copy/abort":
				resp.Abort()
				return 0
			}
			if _, err := hang.Await(req.Thread, -1); err != nil {
				return 502
			}
			return 200
		})
	for range 10 {
		if a := s.Request("GET /x", nil, ""); a.Text != "real /x" {
			t.Fatal(a.Status, a.Text)
		}
	}
	s.await(t, "copies that hang", [5]int64{3, 3, 0, 7, 0})
	s.Skip(2 * time.Minute)
	s.await(t, "their time is over", [5]int64{0, 3, 3, 7, 0})
	s.Panics.Expect()
	for i, path := range []string{"/500", "/panic", "/abort"} {
		if a := s.Request("GET "+path, nil, ""); a.Text != "real "+path {
			t.Fatal(a.Status, a.Text)
		}
		s.await(t, path, [5]int64{0, int64(4 + i), int64(4 + i), 7, 0})
	}
	s.Request("GET /x", nil, "")
	s.await(t, "one more", [5]int64{1, 7, 6, 7, 0})
	s.Stop(time.Hour)
	s.await(t, "the server stops", [5]int64{0, 7, 7, 7, 0})
}

// TestEndless: an answer to a copy that does not end is cut when its time is over.
func TestEndless(t *testing.T) {
	t.Parallel()
	s := start(t, modes.Direct, mirror.Settings{Timeout: 10 * time.Millisecond}, echo,
		func(req *conn.Request, resp *conn.Response) int {
			for {
				if _, err := resp.WriteString(strings.Repeat("x", 1<<10)); err != nil {
					return 200
				}
			}
		})
	s.Request("GET /", nil, "")
	s.await(t, "its time is over", [5]int64{0, 1, 1, 0, 0})
}

// TestClientLeaves: a copy outlives its request, and its client.
func TestClientLeaves(t *testing.T) { modes.Run(t, testClientLeaves, modes.Plain, modes.HTTP2TLS) }

func testClientLeaves(t *testing.T, m modes.Mode) {
	hang, got := new(loop.Promise[int]), make(chan string, 1)
	s := start(t, m, mirror.Settings{}, echo, func(req *conn.Request, resp *conn.Response) int {
		if req.Path() != "/copy/x" {
			return 200
		}
		before := fmt.Sprint(req.RemoteAddr(), req.LocalAddr(), req.ID(), req.Header(), req.TLS() != nil)
		_, err := hang.Await(req.Thread, -1)
		after := fmt.Sprint(req.RemoteAddr(), req.LocalAddr(), req.ID(), req.Header(), req.TLS() != nil)
		got <- fmt.Sprint(before == after, req.Gone(), err)
		return 200
	})
	c := s.Dial()
	c.Send("GET /x HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("x", 1000) + "\r\n\r\n")
	c.Answer("GET")
	s.await(t, "a copy", [5]int64{1, 1})
	c.Close()
	s.Idle()
	for range 10 { // others use what the request had
		s.Request("GET /other", []string{"X-Other: " + strings.Repeat("y", 1000)}, "")
	}
	hang.Resolve(0)
	if g := <-got; g != "true false <nil>" {
		t.Error(g)
	}
}

// TestShare: of many requests so many are copied.
func TestShare(t *testing.T) {
	t.Parallel()
	s := start(t, modes.Direct, mirror.Settings{Share: 25, MaxRequests: 1000}, echo, nil)
	c := s.Dial()
	for range 40 {
		c.Send(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 10))
		for range 10 {
			c.Answer("GET")
		}
	}
	wait.Until(t, "the copies", func() bool { return s.counts()[0] == 0 })
	if n := s.counts()[1]; n < 50 || n > 150 { // by chance in one of 10^7 runs
		t.Errorf("%d copies of 400", n)
	}
}

// TestErrors: what cannot work is refused.
func TestErrors(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct{ prefix, to string }{
		`to: expected the path of a route, such as "/mirror", not ""`:        {"/a", ""},
		`to: expected the path of a route, such as "/mirror", not "/a?b"`:    {"/a", "/a?b"},
		`to: expected the path of a route, such as "/mirror", not "/a/../b"`: {"/a", "/a/../b"},
		`to: the site has no route for /b`:                                   {"/a", "/b"},
		`to: /a/x is a path of this route; expected that of another route`:   {"/a", "/a/x"},
	} {
		routes := &handlers.SiteRoutes{All: []handlers.Route{{Prefix: "/a"}}}
		_, err := mirror.New(mirror.Settings{To: tt.to}, handlers.Env{Prefix: tt.prefix,
			Process: around.In(around.Context{Routes: routes, Route: routes.Of(tt.prefix)})})
		if fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
