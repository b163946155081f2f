package fastcgi_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestRetry: a request that another application may answer goes there after each of the causes in
// `retry`, of which the middle of a head is one.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause  string
		status int // without it
		script fcgitest.Script
	}{
		{"cut", 502, func(c *fcgitest.Conn) { c.Read() }},
		{"timeout", 504, func(c *fcgitest.Conn) { c.Read(); c.Gone(wait.Patience) }},
		{"malformed", 502, func(c *fcgitest.Conn) { c.Read(); c.Stdout("Content-Type: te") }},
		{"malformed", 502, func(c *fcgitest.Conn) { c.Read(); c.Stdout("no field\r\n\r\n"); c.End() }},
		{"malformed", 502, func(c *fcgitest.Conn) { c.Read(); c.End() }},
		{"503", 503, func(c *fcgitest.Conn) { c.Read(); c.Stdout("Status: 503\r\n\r\nbad"); c.End() }},
	} {
		for _, retry := range [][]string{{tt.cause}, {"connect"}} {
			bad := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
				tt.script(c)
				c.Close()
			})
			good := fcgitest.Start(t, "unix", answers("good"))
			p := serve(t, []string{bad.Address, good.Address + " backup"}, func(s *fastcgi.Settings) {
				s.Retry, s.ReadTimeout = retry, 50*time.Millisecond
			})
			want, body := tt.status, ""
			if retry[0] == tt.cause {
				want, body = 200, "good"
			}
			if g := p.get("/x.php"); g.status != want || body != "" && g.body != body {
				t.Errorf("%v: %+v, want %d", retry, g, want)
			}
		}
	}
}

// TestServerFails: an application that says no head counts as one that fails, and one that is
// overloaded not as one that works.
func TestServerFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script func(c *fcgitest.Conn, n int32)
		met    int32
	}{
		"no head": {func(c *fcgitest.Conn, _ int32) {
			c.Stderr("PHP message")
			c.Stdout("no field\r\n\r\n")
			c.End()
		}, 3},
		"overloaded in between": {func(c *fcgitest.Conn, n int32) {
			if n%2 == 0 {
				c.EndStatus(0, 2)
			}
		}, 5},
	} {
		var met atomic.Int32
		bad := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			tt.script(c, met.Add(1))
			c.Close()
		})
		good := fcgitest.Start(t, "unix", answers("hello"))
		p := serve(t, []string{bad.Address, good.Address}, func(s *fastcgi.Settings) {
			s.FailTimeout = time.Hour
		})
		for range 40 {
			p.get("/x.php")
		}
		if n := met.Load(); n != tt.met {
			t.Errorf("%s: %d requests have met it, want %d", name, n, tt.met)
		}
	}
}
