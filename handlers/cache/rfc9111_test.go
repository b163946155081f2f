package cache_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

// origin is a handler whose answers a test sets by functions of the request's number.
type origin struct {
	n      atomic.Int32
	answer func(n int32, req *conn.Request, w *conn.Response) int
	seen   atomic.Pointer[string] // the conditions of the last request
}

func (o *origin) serve(req *conn.Request, w *conn.Response) int {
	h := req.Header()
	said := fmt.Sprint(req.Method(), " ", strings.Join(h.Values("If-None-Match"), ","), " ",
		strings.Join(h.Values("If-Modified-Since"), ","), " ", h.Get("Range"))
	o.seen.Store(&said)
	return o.answer(o.n.Add(1), req, w)
}

// fields sets fields, given as "Name: value".
func fields(w *conn.Response, lines ...string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
}

// step is a request and what comes of it.
type step struct {
	skip   time.Duration
	line   string // "GET /a", or a path; then fields, with "; " between
	want   string // status, body, Cache-Status
	has    string // a field, "Name: value"
	asked  string // what the handler has seen, if it was asked
	number int32  // requests to the handler by now; 0: as before
}

func (s *cached) run(t *testing.T, o *origin, steps []step) {
	t.Helper()
	var number int32
	for i, st := range steps {
		s.Skip(st.skip)
		none := ""
		o.seen.Store(&none)
		parts := strings.Split(st.line, "; ")
		line := parts[0]
		if !strings.Contains(line, " ") {
			line = "GET " + line
		}
		a := s.Request(line, parts[1:], "")
		got := fmt.Sprint(a.StatusCode, " ", a.Text, " ",
			strings.Join(a.Header.Values("Cache-Status"), ", "))
		if got != st.want {
			t.Errorf("step %d, %s: %q, want %q", i, st.line, got, st.want)
		}
		if name, value, ok := strings.Cut(st.has, ": "); ok {
			if v := strings.Join(a.Header.Values(name), ", "); v != value {
				t.Errorf("step %d, %s: %s: %q, want %q", i, st.line, name, v, value)
			}
		}
		if st.asked != "" && *o.seen.Load() != st.asked {
			t.Errorf("step %d, %s: the handler has seen %q, want %q", i, st.line, *o.seen.Load(), st.asked)
		}
		if st.number != 0 {
			number = st.number
		}
		if n := o.n.Load(); number != 0 && n != number {
			t.Errorf("step %d, %s: %d requests to the handler, want %d", i, st.line, n, number)
			number = n
		}
	}
}

const past = "Sun, 06 Nov 1994 08:49:37 GMT"

// TestValidation: what is stale is asked for by its validators, and a 304 makes it fresh, with new
// fields. The client's own conditions do not reach the handler.
func TestValidation(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=10", `ETag: "v1"`, "Last-Modified: "+past,
				fmt.Sprint("X-N: ", n))
			if n == 2 || n == 4 {
				return 304
			}
			if n == 5 {
				w.Header().Set("ETag", `"v2"`)
			}
			return w.Text(200, fmt.Sprint("body ", n))
		}}
		s := start(t, m, cache.Settings{}, o.serve)
		s.run(t, o, []step{
			{line: `/; If-None-Match: "other"; Range: bytes=0-1; If-Modified-Since: ` + past,
				want: "206 bo lwango; fwd=uri-miss; stored", asked: "GET   ", number: 1,
				has: "Content-Range: bytes 0-1/6"},
			{line: `/; If-None-Match: "v1"`, want: "304  lwango; hit; ttl=10"},
			{line: `/; If-None-Match: "v0"`, want: "200 body 1 lwango; hit; ttl=10"},
			{line: `/; If-Modified-Since: ` + past, want: "304  lwango; hit; ttl=10", has: "Age: 0"},
			{line: `/; Range: bytes=2-3`, want: "206 dy lwango; hit; ttl=10",
				has: "Content-Range: bytes 2-3/6"},
			{line: `/; Range: bytes=2-3; If-Range: "v0"`, want: "200 body 1 lwango; hit; ttl=10"},
			{line: `/; Range: bytes=9-`, want: "416  lwango; hit; ttl=10", has: "Content-Range: bytes */6"},
			{line: "HEAD /", want: "200  lwango; hit; ttl=10", has: "Content-Length: 6"},
			{skip: 11 * time.Second, line: "/", want: "200 body 1 lwango; fwd=stale; fwd-status=304; stored",
				has: "X-N: 2", number: 2,
				asked: `GET "v1" ` + past + " "},
			{line: "/", want: "200 body 1 lwango; hit; ttl=10", has: "X-N: 2"},
			{skip: 11 * time.Second, line: "/", want: "200 body 3 lwango; fwd=stale; stored", number: 3},
			{line: "/; Cache-Control: no-cache",
				want: "200 body 3 lwango; fwd=stale; fwd-status=304; stored", has: "X-N: 4", number: 4},
			{line: `/; Cache-Control: no-cache; If-None-Match: "v2"`,
				want: "304  lwango; fwd=request; stored", number: 5},
			{line: "/", want: "200 body 5 lwango; hit; ttl=10", has: `ETag: "v2"`},
		})
	}, modes.Direct, modes.Several, modes.HTTP2)
}

// TestValidatedByAnother: a 304 about another state than ours is none; the handler is asked again.
func TestValidatedByAnother(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=10", fmt.Sprintf(`ETag: "v%d"`, n))
		if n == 2 {
			return 304
		}
		return w.Text(200, fmt.Sprint(n))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	s.run(t, o, []step{
		{line: "/", want: "200 1 lwango; fwd=uri-miss; stored"},
		{skip: 11 * time.Second, line: "/", want: "200 3 lwango; fwd=uri-miss; stored", number: 3,
			asked: "GET   "},
	})
}

// TestStale: an application that fails, and what may be sent in place of its answer.
func TestStale(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		w.Header().Set("Cache-Control", strings.ReplaceAll(req.RawQuery(), "+", ", "))
		switch {
		case n == 1:
			return w.Text(200, "good")
		case n == 3:
			w.Abort()
			return 0
		}
		return 503
	}}
	for _, tt := range []struct {
		control string
		set     cache.Settings
		stale   bool
	}{
		{"max-age=10", cache.Settings{}, false},
		{"max-age=10+stale-if-error=60", cache.Settings{}, true},
		{"max-age=10", cache.Settings{Grace: time.Minute}, true},
		{"max-age=10+must-revalidate", cache.Settings{Grace: time.Minute}, false},
		{"max-age=10+no-cache", cache.Settings{Grace: time.Minute}, false},
	} {
		o.n.Store(0)
		s := start(t, modes.Direct, tt.set, o.serve)
		if a, _ := get(t, s, "/?"+tt.control); a.Text != "good" {
			t.Errorf("%s: %s", tt.control, a.Text)
		}
		for i := range 2 {
			s.Skip(15 * time.Second)
			c := s.Dial()
			c.Send("GET /?" + tt.control + " HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n")
			text, err := (&client{c}).read()
			if (err == nil && text == "good") != tt.stale {
				t.Errorf("%s, failure %d: %q, %v", tt.control, i, text, err)
			}
		}
		s.Skip(time.Minute)
		if a, _ := get(t, s, "/?"+tt.control); a.StatusCode != 503 {
			t.Errorf("%s: %d after the grace", tt.control, a.StatusCode)
		}
	}
}

// TestRefresh: a stale answer is sent at once, and asked for anew beside, once.
func TestRefresh(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const control = "max-age=10, stale-while-revalidate=60"
		first, second := newGate(control), newGate(control)
		first.head.Resolve("")
		first.rest.Resolve("")
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			if first.asked.Load() == 0 {
				return first.serve(req, w)
			}
			return second.serve(req, w)
		})
		get(t, s, "/x")
		s.Skip(20 * time.Second)
		for range 3 {
			if a, _ := get(t, s, "/x"); a.Text != whole ||
				a.Header.Get("Cache-Status") != "lwango; hit; ttl=-10" {
				t.Errorf("%d bytes, %s", len(a.Text), a.Header.Get("Cache-Status"))
			}
		}
		second.head.Resolve("")
		second.rest.Resolve("")
		wait.Until(t, "the new answer", func() bool { return s.stats().Fills == 2 })
		if a, _ := get(t, s, "/x"); a.Header.Get("Cache-Status") != "lwango; hit; ttl=10" ||
			second.asked.Load() != 1 {
			t.Errorf("%s, %d requests", a.Header.Get("Cache-Status"), second.asked.Load())
		}
	}, modes.Direct, modes.Several)
}

// TestKept: what is kept, and what is not.
func TestKept(t *testing.T) {
	for _, tt := range []struct {
		fields  string // of the answer
		request string
		set     cache.Settings
		kept    bool
	}{
		{"", "", cache.Settings{}, false},
		{"Cache-Control: max-age=5", "", cache.Settings{}, true},
		{"", "", cache.Settings{TTL: map[string]time.Duration{"200": time.Minute}}, true},
		{"", "", cache.Settings{TTL: map[string]time.Duration{"any": time.Minute}}, true},
		{"", "", cache.Settings{TTL: map[string]time.Duration{"404": time.Minute}}, false},
		{"Cache-Control: no-store", "", cache.Settings{TTL: map[string]time.Duration{"200": time.Minute}},
			false},
		{"Cache-Control: private", "", cache.Settings{TTL: map[string]time.Duration{"200": time.Minute}},
			false},
		{"Cache-Control: max-age=5; Set-Cookie: a=b", "", cache.Settings{}, false},
		{"Cache-Control: max-age=5; Set-Cookie: a=b", "", cache.Settings{KeepCookies: true}, true},
		{"Cache-Control: max-age=5; Vary: *", "", cache.Settings{}, false},
		{"Cache-Control: max-age=5", "Authorization: Bearer x", cache.Settings{}, false},
		{"Cache-Control: max-age=5, public", "Authorization: Bearer x", cache.Settings{}, true},
		{"Cache-Control: max-age=5", "Cookie: a=b", cache.Settings{}, true},
		{"Cache-Control: no-store; CDN-Cache-Control: max-age=5", "", cache.Settings{}, true},
		{"Cache-Control: max-age=5", "Upgrade: x", cache.Settings{}, false},
		{"Cache-Control: max-age=5", `If-Match: "x"`, cache.Settings{}, false},
	} {
		name := fmt.Sprintf("%s | %s | %v", tt.fields, tt.request, tt.set.TTL)
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			if tt.fields != "" {
				fields(w, strings.Split(tt.fields, "; ")...)
			}
			return w.Text(200, fmt.Sprint(n))
		}}
		s := start(t, modes.Direct, tt.set, o.serve)
		var request []string
		if tt.request != "" {
			request = []string{tt.request}
		}
		get(t, s, "/", request...)
		if a, said := get(t, s, "/", request...); (a.Text == "1") != tt.kept {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestVary: variants by what Vary names, each for those whose fields mean the same.
func TestVary(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Vary: Accept-Language, X-Mode")
		return w.Text(200, fmt.Sprint(req.Header().Get("Accept-Language"), n))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	s.run(t, o, []step{
		{line: "/; Accept-Language: de", want: "200 de1 lwango; fwd=uri-miss; stored"},
		{line: "/; Accept-Language: en", want: "200 en2 lwango; fwd=vary-miss; stored"},
		{line: "/; Accept-Language: de", want: "200 de1 lwango; hit; ttl=100"},
		{line: "/; Accept-Language: EN", want: "200 en2 lwango; hit; ttl=100"},
		{line: "/; Accept-Language: de; X-Mode: a", want: "200 de3 lwango; fwd=vary-miss; stored"},
		{line: "/", want: "200 4 lwango; fwd=vary-miss; stored", number: 4},
	})
}

// TestChanges: an unsafe method that succeeds drops what is kept for its target and for those that
// its answer names.
func TestChanges(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			if req.Method() != "GET" {
				fields(w, "Location: /b", "Content-Location: http://other.example/c")
				if req.RawQuery() == "fails" {
					return 500
				}
				return 201
			}
			fields(w, "Cache-Control: max-age=100")
			return w.Text(200, fmt.Sprint(n))
		}}
		s := start(t, m, cache.Settings{}, o.serve)
		s.run(t, o, []step{
			{line: "/a", want: "200 1 lwango; fwd=uri-miss; stored"},
			{line: "/b", want: "200 2 lwango; fwd=uri-miss; stored"},
			{line: "/c", want: "200 3 lwango; fwd=uri-miss; stored"},
			{line: "POST /a", want: "201  lwango; fwd=method"},
			{line: "/a", want: "200 5 lwango; fwd=uri-miss; stored"},
			{line: "/b", want: "200 6 lwango; fwd=uri-miss; stored"},
			{line: "/c", want: "200 3 lwango; hit; ttl=100"},
			{line: "OPTIONS /a", want: "201  lwango; fwd=method"},
			{line: "/a", want: "200 5 lwango; hit; ttl=100"},
			{line: "/a?fails", want: "200 8 lwango; fwd=uri-miss; stored"},
			{line: "/a?fails", want: "200 8 lwango; hit; ttl=100"},
		})
		if a := s.Request("PUT /a?fails", []string{"Content-Length: 0"}, ""); a.StatusCode != 500 {
			t.Errorf("%d", a.StatusCode)
		}
		if _, said := get(t, s, "/a?fails"); said != "200 8 lwango; hit; ttl=100" {
			t.Errorf("after a PUT that has failed: %s", said)
		}
	}, modes.Direct, modes.HTTP2)
}

// TestOnlyIfCached: a request that wants nothing but what is kept.
func TestOnlyIfCached(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		return w.Text(200, fmt.Sprint(n))
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	if a, _ := get(t, s, "/", "Cache-Control: only-if-cached"); a.StatusCode != 504 ||
		o.n.Load() != 0 {
		t.Errorf("%d", a.StatusCode)
	}
	get(t, s, "/")
	if a, _ := get(t, s, "/", "Cache-Control: only-if-cached"); a.Text != "1" {
		t.Errorf("%d", a.StatusCode)
	}
	deaf := start(t, modes.Direct, cache.Settings{HonourClients: new(false)}, o.serve)
	deaf.run(t, o, []step{
		{line: "/; Cache-Control: only-if-cached", want: "200 2 lwango; fwd=uri-miss; stored"},
		{line: "/; Cache-Control: no-cache", want: "200 2 lwango; hit; ttl=100"},
	})
}

// TestInterim: 103 reaches the client that has asked, and is not kept; nor are fields behind the
// body.
func TestInterim(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		h := new(conn.Header)
		h.Set("Link", "</a.css>")
		if err := w.Inform(103, h); err != nil {
			return 500
		}
		if req.Sleep(time.Millisecond) != nil {
			return 500
		}
		fields(w, "Cache-Control: max-age=100")
		w.AddTrailer("X-Sum", "1")
		w.Write([]byte("body"))
		w.Flush()
		return 200
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	raw := "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	if got := s.Exchange(raw); !strings.HasPrefix(got,
		"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n") ||
		!strings.HasSuffix(got, "\r\n0\r\nX-Sum: 1\r\n\r\n") {
		t.Errorf("%q", got)
	}
	if got := s.Exchange(raw); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") ||
		!strings.HasSuffix(got, "\r\n\r\nbody") {
		t.Errorf("%q", got)
	}
}

// TestErrorsOfHandlers: an error without a body gets the server's page, from the cache as well.
func TestErrorsOfHandlers(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		return 404
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	first, _ := get(t, s, "/")
	second, said := get(t, s, "/")
	if first.Text != second.Text || !strings.Contains(first.Text, "404 Not Found") ||
		o.n.Load() != 1 || !strings.HasSuffix(said, "; hit; ttl=100") {
		t.Errorf("%q, then %s", first.Text, said)
	}
}
