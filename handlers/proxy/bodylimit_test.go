package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestBodyLimits: a body that is longer than the route allows is refused before an upstream is
// asked and before the client is told to send it, whether the body is gathered or not. One whose
// length only its end tells is refused when it has come so far.
func TestBodyLimits(t *testing.T) { modes.Run(t, testBodyLimits, modes.Direct, modes.HTTP2) }

func testBodyLimits(t *testing.T, m modes.Mode) {
	for _, buffering := range []bool{true, false} {
		o := start(t, func(p *originConn) {
			for req := p.request(); req != nil; req = p.request() {
				body, _ := io.ReadAll(req.Body)
				p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
		})
		mw := must.Get(limit.New(limit.Settings{MaxBodySize: 8}, handlers.Env{}))(t)
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.RequestBuffering = buffering
		})
		s := module.Start(t, m, "/", mw(f.handler))
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			c := s.Dial()
			c.Send("POST / HTTP/1.1\r\nHost: a\r\n" + expect + "Content-Length: 9\r\n\r\n")
			if expect == "" {
				c.Send("123456789")
			}
			if a := c.Answer("POST"); a.StatusCode != 413 { // and no 100 in front of it
				t.Errorf("buffering %v, %q: %s", buffering, expect, a.Status)
			}
			c.Close()
		}
		if n := o.accepted.Load(); n != 0 {
			t.Errorf("buffering %v: the upstream was asked %d times", buffering, n)
		}
		if a := s.Request("POST /", []string{"Content-Length: 8"}, "12345678"); a.StatusCode != 200 ||
			a.Text != "12345678" {
			t.Errorf("buffering %v: a body that is as long as it may be: %s", buffering, a.Status)
		}
		if a := s.Request("POST /", []string{"Transfer-Encoding: chunked"},
			"5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n"); a.StatusCode != 413 {
			t.Errorf("buffering %v, chunked: %s", buffering, a.Status)
		}
	}
}

// TestRequestMemory: so much of a body is held in memory, and what is longer in a file.
func TestRequestMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[handlers.Size][3]bool{0: {false, true, true},
		1000: {true, true, true}, 20 << 10: {false, false, true}} {
		var f *front
		o := start(t, func(p *originConn) {
			for req := p.request(); req != nil; req = p.request() {
				n, _ := io.Copy(io.Discard, req.Body)
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-File: %t\r\nX-Got: %d\r\n\r\n",
					f.Server.Server.Spooled() > 0, n)
			}
		})
		f = serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			if memory > 0 {
				s.RequestMemory = memory
			}
		})
		for i, n := range []int{1001, 13 << 10, 21 << 10} {
			a := f.Request("POST /", []string{fmt.Sprint("Content-Length: ", n)}, strings.Repeat("x", n))
			if got := a.Header.Get("X-File"); got != fmt.Sprint(want[i]) ||
				a.Header.Get("X-Got") != fmt.Sprint(n) {
				t.Errorf("%v in memory, %d bytes: in a file: %s, %s", memory, n, got, a.Header.Get("X-Got"))
			}
		}
	}
}
