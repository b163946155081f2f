package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestExpect: the client is asked for its body when the upstream is ready for it.
func TestExpect(t *testing.T) { modes.Run(t, testExpect, modes.Direct, modes.HTTP2) }

func testExpect(t *testing.T, m modes.Mode) {
	for name, script := range map[string]func(p *originConn){
		"100": func(p *originConn) {
			if !strings.Contains(p.head(), "Expect: 100-continue\r\n") {
				p.say("HTTP/1.1 500 No expectation\r\nContent-Length: 0\r\n\r\n")
				return
			}
			p.say("HTTP/1.1 100 Continue\r\n\r\n")
			body := make([]byte, 4)
			io.ReadFull(p.r, body)
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", body)
		},
		"none": func(p *originConn) {
			p.head()
			body := make([]byte, 4)
			io.ReadFull(p.r, body)
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", body)
		},
		"no": func(p *originConn) {
			p.head()
			p.say("HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := wait.Patience
			if name == "none" {
				held = 10 * time.Millisecond
			}
			proxy.SetExpectFor(t, held)
			o := start(t, script)
			f := serve(t, m, "/", []string{o.addr},
				func(s *proxy.Settings) { s.RequestBuffering = false })
			c := f.Dial()
			c.Send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			line, err := c.R.Peek(12)
			want := "HTTP/1.1 100"
			if name == "no" {
				want = "HTTP/1.1 413"
			}
			if string(line) != want || err != nil {
				t.Fatalf("%q %v", line, err)
			}
			if name == "no" {
				return
			}
			if _, err := http.ReadResponse(c.R, nil); err != nil {
				t.Error(err)
			}
			c.Send("body")
			if g := read(c.R, "PUT"); g.status != 200 || g.body != "body" {
				t.Error(g)
			}
		})
	}
}

// TestInterimHeld: interim responses for which the client has no room at first do not let the
// answer begin before the upstream says how.
func TestInterimHeld(t *testing.T) { modes.Run(t, testInterimHeld, modes.Direct, modes.HTTP2) }

func testInterimHeld(t *testing.T, m modes.Mode) {
	const interim = 20
	said, taken := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(taken) })
	defer goOn()
	o := start(t, func(p *originConn) {
		p.head()
		for range interim { // 10 MB, which is more than sockets take
			p.say("HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", strings.Repeat("x", 500_000))
		}
		close(said)
		<-taken
		p.say("HTTP/1.1 200 OK\r\nX-Id: 7\r\nContent-Length: 5\r\n\r\nhello")
	})
	f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.MaxHeaderSize = 1 << 20
	})
	c := f.DialBuffer(server.SlowReader)
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-said
	for range interim {
		if a := c.Answer("GET"); a.StatusCode != 103 {
			t.Fatal(a.Status)
		}
	}
	goOn()
	a := c.Answer("GET")
	if a.StatusCode != 200 || a.Header.Get("X-Id") != "7" || a.Text != "hello" {
		t.Errorf("%s %v %q", a.Status, a.Header, a.Text)
	}
}

// TestEarly: an answer that comes before the request's body is read, from an upstream that reads no
// more.
func TestEarly(t *testing.T) { modes.Run(t, testEarly, modes.Direct, modes.HTTP2) }

func testEarly(t *testing.T, m modes.Mode) {
	o := start(t, func(p *originConn) {
		p.head()
		p.say("HTTP/1.1 413 Too much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		p.Conn.(interface{ CloseWrite() error }).CloseWrite()
		io.Copy(io.Discard, p.r)
	})
	for _, buffered := range []bool{true, false} {
		f := serve(t, m, "/", []string{o.addr},
			func(s *proxy.Settings) { s.RequestBuffering = buffered })
		g := f.ask("POST /", "Content-Length: 3000000\r\n", strings.Repeat("x", 3000000))
		if g.status != 413 || g.body != "no" {
			t.Error(buffered, g, f.log)
		}
	}
}

// TestSlowClient: a client that does not read does not hold the upstream, up to response_buffering.
func TestSlowClient(t *testing.T) { modes.Run(t, testSlowClient, modes.Direct, modes.HTTP2) }

func testSlowClient(t *testing.T, m modes.Mode) {
	body := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	o := start(t, func(p *originConn) {
		for p.request() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	f := serve(t, m, "/", []string{o.addr}, nil)
	c := f.DialBuffer(server.SlowReader)
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	wait.Until(t, "the upstream is free", func() bool {
		return o.accepted.Load() == 1 && o.open.Load() == 0 // idle_timeout has closed it
	})
	if g := read(c.R, "GET"); g.body != body {
		t.Error(len(g.body), g.err)
	}
}

// TestClientLeaves: the connection with the upstream is closed at once.
func TestClientLeaves(t *testing.T) { modes.Run(t, testClientLeaves, modes.Direct, modes.HTTP2) }

func testClientLeaves(t *testing.T, m modes.Mode) {
	asked := make(chan bool, 1)
	o := start(t, func(p *originConn) { p.request(); asked <- true; io.Copy(io.Discard, p.r) })
	f := serve(t, m, "/", []string{o.addr}, nil)
	c := f.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	c.Close()
	wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
}
