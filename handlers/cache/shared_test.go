package cache_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// behind serves what around makes of a handler that is cached.
func behind(t *testing.T, h conn.Handler, around func(cached conn.Handler) conn.Handler) *cached {
	t.Helper()
	c := &cached{store: open(t)}
	c.Server = serveAll(t,
		around(must.Get(cache.New(c.store, cache.Settings{}, handlers.Env{}))(t)(h)))
	return c
}

// TestAskedIsNotKept: what a handler says of one client's request, it does not say of another's.
func TestAskedIsNotKept(t *testing.T) {
	judge := func(req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		if req.Header().Get("Cookie") == "in" {
			return w.Text(200, "yes")
		}
		return 403
	}
	s := behind(t, judge, func(cached conn.Handler) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			status, _, err := req.Subrequest("/check", cached)
			if err != nil {
				return 500
			}
			return w.Text(status, "")
		}
	})
	for i, tt := range []struct {
		cookie string
		want   int
	}{{"in", 200}, {"out", 403}, {"in", 200}} {
		if a, _ := get(t, s, "/", "Cookie: "+tt.cookie); a.StatusCode != tt.want {
			t.Errorf("step %d: %d, want %d", i, a.StatusCode, tt.want)
		}
	}
}

// TestUserFieldIsPrivate: a page that may be for the user whom the server has named in a field is
// kept only if the application says that it is for all.
func TestUserFieldIsPrivate(t *testing.T) {
	for control, shared := range map[string]bool{"max-age=100": false, "max-age=100, public": true} {
		page := func(req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: "+control)
			return w.Text(200, req.Header().Get("Remote-User"))
		}
		s := behind(t, page, func(cached conn.Handler) conn.Handler {
			return func(req *conn.Request, w *conn.Response) int {
				req.Layer().ReplaceHeader("Remote-User", req.Header().Get("Cookie"))
				return cached(req, w)
			}
		})
		get(t, s, "/", "Cookie: a")
		if a, said := get(t, s, "/", "Cookie: b"); (a.Text == "a") != shared {
			t.Errorf("%s: %s", control, said)
		}
	}
}

// TestNamedFilesAreNotKept: an application that names a file has chosen it for one client.
func TestNamedFilesAreNotKept(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a file"), 0o600))
	accel := must.Get(servefiles.OpenAccel(dir, false, handlers.Env{}))(t)
	for _, way := range [][2]string{{"/a", ""}, {"", dir + "/a"}, {"/none", ""}} {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			status, _ := accel.Send(req, w, way[0], way[1], 200)
			return status
		}}
		s := start(t, modes.Direct, cache.Settings{TTL: map[string]time.Duration{"any": time.Minute}},
			o.serve)
		for i := range int32(2) {
			if _, said := get(t, s, "/"); o.n.Load() != i+1 {
				t.Errorf("%q: %s", way, said)
			}
		}
	}
}

// TestVaryBy304: a 304 that brings Vary does not make an answer, kept for all, one for all again.
func TestVaryBy304(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=10", `ETag: "v1"`)
		if n > 1 {
			fields(w, "Vary: X-Mode")
		}
		if n == 2 {
			return 304
		}
		return w.Text(200, fmt.Sprint(req.Header().Get("X-Mode"), n))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	s.run(t, o, []step{
		{line: "/; X-Mode: a", want: "200 a1 lwango; fwd=uri-miss; stored"},
		{skip: 11 * time.Second, line: "/; X-Mode: a", want: "200 a3 lwango; fwd=uri-miss; stored",
			number: 3},
		{line: "/; X-Mode: b", want: "200 b4 lwango; fwd=vary-miss; stored", number: 4},
		{line: "/; X-Mode: a", want: "200 a3 lwango; hit; ttl=10"},
	})
}

// TestNoLongerKept: once the application has said something else that is not kept, what was kept
// does not come back.
func TestNoLongerKept(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		control string
		back    bool
	}{
		{"private", 200, "private", false},
		{"gone", 410, "no-store", false},
		{"error", 500, "no-store", true},
		{"refused", 429, "no-store", true},
	} {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			switch n {
			case 1:
				fields(w, "Cache-Control: max-age=10")
			case 2:
				fields(w, "Cache-Control: "+tt.control)
				return w.Text(tt.status, "other")
			default:
				return 503
			}
			return w.Text(200, "old")
		}}
		s := start(t, modes.Direct, cache.Settings{Grace: time.Hour}, o.serve)
		get(t, s, "/")
		s.Skip(11 * time.Second)
		get(t, s, "/")
		if a, said := get(t, s, "/"); (a.Text == "old") != tt.back {
			t.Errorf("%s: %s", tt.name, said)
		}
	}
}

// TestOnceBesideOthers: requests whose answer is not for others hold nobody up, and those that may
// share one ask once.
func TestOnceBesideOthers(t *testing.T) {
	for _, field := range []string{"Cache-Control: no-store", "Authorization: x", "X-Mine: x"} {
		g := newGate("max-age=100")
		mine := rules.When{Conditions: rules.Conditions{Header: map[string][]string{"X-Mine": {"x"}}}}
		s := start(t, modes.Several, cache.Settings{NoStore: []rules.When{mine}}, g.serve)
		first, second, third := s.Dial(), s.Dial(), s.Dial()
		first.Send("GET /x HTTP/1.1\r\nHost: test.example\r\n" + field + "\r\n\r\n")
		wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
		second.Send(ask)
		wait.Until(t, "the second one", func() bool { return g.asked.Load() == 2 })
		third.Send(ask)
		s.Settle()
		g.head.Resolve("")
		g.rest.Resolve("")
		for i, c := range []*client{{first}, {second}, {third}} {
			if text, err := c.read(); err != nil || text != whole {
				t.Errorf("%s: client %d has got %d bytes, %v", field, i, len(text), err)
			}
		}
		if n := g.asked.Load(); n != 2 {
			t.Errorf("%s: %d requests to the handler", field, n)
		}
		if a, said := get(t, s, "/x"); a.Text != whole || g.asked.Load() != 2 {
			t.Errorf("%s: afterwards %.100s", field, said)
		}
	}
}
