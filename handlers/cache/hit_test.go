package cache_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// get asks for a target, and returns what the answer says: status, body, and Cache-Status.
func get(t testing.TB, s *cached, target string,
	fields ...string) (answer server.Answer, said string) {
	t.Helper()
	a := s.Request("GET "+target, fields, "")
	return a, fmt.Sprint(a.StatusCode, " ", a.Text, " ",
		strings.Join(a.Header.Values("Cache-Status"), ", "))
}

// counting answers with the number of the request, and Cache-Control.
func counting(n *atomic.Int32, control string) conn.Handler {
	return func(req *conn.Request, w *conn.Response) int {
		w.Header().Set("Cache-Control", control)
		return w.Text(200, strconv.Itoa(int(n.Add(1))))
	}
}

// TestHit: an answer is kept as long as it says, for its own URL, and then asked for anew.
func TestHit(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var n atomic.Int32
		s := start(t, m, cache.Settings{}, counting(&n, "max-age=10"))
		for i, step := range []struct {
			target, want, age string
			skip              time.Duration
		}{
			{"/a", "200 1 lwango; fwd=uri-miss; stored", "", 0},
			{"/a", "200 1 lwango; hit; ttl=10", "0", 0},
			{"/b", "200 2 lwango; fwd=uri-miss; stored", "", 0},
			{"/a?", "200 3 lwango; fwd=uri-miss; stored", "", 0},
			{"/a", "200 1 lwango; hit; ttl=6", "4", 4500 * time.Millisecond},
			{"/a", "200 4 lwango; fwd=stale; stored", "", 6 * time.Second},
			{"/a", "200 4 lwango; hit; ttl=10", "0", 0},
		} {
			s.Skip(step.skip)
			a, said := get(t, s, step.target)
			if said != step.want || a.Header.Get("Age") != step.age {
				t.Errorf("step %d: %s, age %q; want %s, age %q", i, said, a.Header.Get("Age"), step.want,
					step.age)
			}
			if a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || a.ContentLength != 1 ||
				a.Header.Get("Date") == "" || len(a.Header.Values("Date")) != 1 {
				t.Errorf("step %d: %v", i, a.Header)
			}
		}
	})
}

// TestHitIsCheap: a hit allocates nothing.
func TestHitIsCheap(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			w.Header().Set("Cache-Control", "max-age=1000")
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Vary", "Accept-Language")
			return w.Text(200, strings.Repeat("x", 4<<10))
		})
		raw := "GET /a?b=c HTTP/1.1\r\nHost: test.example\r\nAccept-Language: de\r\nCookie: a=b\r\n\r\n"
		get(t, s, "/a?b=c", "Accept-Language: de")
		if n := s.Allocs(raw); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}, modes.Direct)
}

// TestMissIsCheap: what is for one client alone costs no allocation once that is known, and an
// answer that is asked for and kept costs few.
func TestMissIsCheap(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for control, most := range map[string]float64{"private": 0, "max-age=1000": 10} {
			body := []byte(strings.Repeat("x", 1<<10))
			control = "Cache-Control: " + control
			s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
				fields(w, control, `ETag: "x"`, "Content-Type: text/plain", "Content-Length: 1024")
				_, _ = w.Write(body)
				return 200
			})
			get(t, s, "/a")
			raw := "GET /a HTTP/1.1\r\nHost: test.example\r\nCache-Control: no-cache\r\n\r\n"
			if n := s.Allocs(raw); n > most {
				t.Errorf("%s: %v allocations", control, n)
			}
		}
	}, modes.Direct)
}
