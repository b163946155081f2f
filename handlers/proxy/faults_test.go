package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// reset makes the connection end with a reset.
func (p *originConn) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

// drain reads until the proxy has closed the connection.
func (p *originConn) drain() {
	p.o.silent <- true
	io.Copy(io.Discard, p.r)
}

// faults are the ways in which an upstream fails.
var faults = map[string]func(p *originConn){
	"end":   func(p *originConn) { p.Close() },
	"half":  func(p *originConn) { p.Conn.(*net.TCPConn).CloseWrite(); p.drain() },
	"reset": (*originConn).reset,
	"stall": (*originConn).drain,
}

// impatient gives up upstreams that say nothing.
func impatient(s *proxy.Settings) {
	s.FirstByteTimeout, s.ReadTimeout = 5*time.Millisecond, 5*time.Millisecond
}

// TestFaults: an upstream that fails behind any byte of its answer. The client gets 502 or 504, or
// an answer that it can tell is cut. The upstream's connection is closed.
func TestFaults(t *testing.T) {
	t.Parallel()
	modes.Run(t, testFaults, modes.Direct, modes.HTTP2)
}

func testFaults(t *testing.T, m modes.Mode) {
	answers := map[string]string{
		"length": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + hello,
		"chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n" +
			"2\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
		"close": "HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello",
	}
	for fault, fail := range faults {
		for framing, answer := range answers {
			t.Run(fault+" "+framing, func(t *testing.T) {
				t.Parallel()
				var cut atomic.Int32
				o := start(t, func(p *originConn) {
					if p.request() != nil {
						p.say("%s", answer[:cut.Load()])
						fail(p)
					}
				})
				change := impatient
				if fault != "stall" {
					change = nil
				}
				f := serve(t, m, "/", []string{o.addr}, change)
				head := strings.LastIndex(answer, "\r\n\r\n") + 4
				if framing == "chunks" {
					head = strings.Index(answer, "\r\n\r\n") + 4
				}
				whole := len(answer)
				if framing == "close" { // the end of the connection is that of the body
					whole = head
				}
				for n := range len(answer) {
					cut.Store(int32(n))
					c := f.Dial()
					c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					std, err := http.ReadResponse(c.R, nil)
					if err == nil && std.StatusCode == 103 {
						std, err = http.ReadResponse(c.R, nil)
					}
					if err != nil {
						t.Fatal(n, err)
					}
					body, err := io.ReadAll(std.Body)
					orderly := framing == "close" && n >= whole && fault != "stall" && fault != "reset"
					want := 502
					if fault == "stall" {
						want = 504
					}
					switch {
					case orderly && (std.StatusCode != 200 || err != nil || string(body) != answer[head:n]):
						t.Errorf("after %d bytes: %d %q %v", n, std.StatusCode, body, err)
					case orderly, n >= head && std.StatusCode == 200 && err != nil:
					case std.StatusCode != want || err != nil:
						t.Errorf("after %d bytes: %d %q %v", n, std.StatusCode, body, err)
					}
					c.Close()
				}
				wait.Until(t, "the connections are closed", func() bool { return o.open.Load() == 0 })
			})
		}
	}
}

// TestFaultsWhileSending: an upstream that fails behind any byte of the request.
func TestFaultsWhileSending(t *testing.T) {
	t.Parallel()
	modes.Run(t, testFaultsWhileSending, modes.Direct, modes.HTTP2)
}

func testFaultsWhileSending(t *testing.T, m modes.Mode) {
	const body = "4\r\nbody\r\n0\r\n\r\n"
	for fault, fail := range faults {
		for _, buffered := range []bool{true, false} {
			t.Run(fault, func(t *testing.T) {
				t.Parallel()
				var cut atomic.Int32
				size := make(chan int, 1)
				o := start(t, func(p *originConn) {
					if cut.Load() < 0 {
						size <- len(p.head())
						// A kept one would perhaps be taken for the next request before its end is seen.
						p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
						return
					}
					if _, err := io.CopyN(io.Discard, p.r, int64(cut.Load())); err == nil {
						fail(p)
					}
				})
				f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
					s.RequestBuffering = buffered
					if fault == "stall" {
						impatient(s)
					}
				})
				want := 502
				if fault == "stall" {
					want = 504
				}
				cut.Store(-1)
				f.ask("POST /", "Transfer-Encoding: chunked\r\n", body)
				for n := range <-size + len("body") {
					cut.Store(int32(n))
					g := f.ask("POST /", "Transfer-Encoding: chunked\r\n", body)
					if g.status != want || g.err != nil {
						t.Errorf("after %d bytes: %d %v", n, g.status, g.err)
					}
				}
				wait.Until(t, "the connections are closed", func() bool { return o.open.Load() == 0 })
			})
		}
	}
}

// TestHalfOpen: an upstream that ends its side behind an answer gets no other request there, though
// it has not said so.
func TestHalfOpen(t *testing.T) { modes.Run(t, testHalfOpen, modes.Direct, modes.HTTP2) }

func testHalfOpen(t *testing.T, m modes.Mode) {
	said := make(chan bool, 1)
	o := start(t, func(p *originConn) {
		if p.request().URL.Path == last {
			return
		}
		p.say(hello)
		p.Conn.(*net.TCPConn).CloseWrite()
		said <- true
		p.drain()
	})
	f := serve(t, m, "/", []string{o.addr},
		func(s *proxy.Settings) { s.IdleTimeout = wait.Patience })
	for i := range int32(10) {
		if g := f.ask("POST /", "", ""); g.body != "hello" { // which is never sent twice
			t.Error(i, g, f.log)
		}
		<-said
		if n := o.accepted.Load(); n != i+1 {
			t.Errorf("%d connections for %d requests", n, i+1)
		}
	}
	f.ask("POST "+last, "", "")
}

// TestAmbiguous: an answer that could be read in two ways is refused, and nothing of it comes into
// the next one on the client's connection.
func TestAmbiguous(t *testing.T) { modes.Run(t, testAmbiguous, modes.Direct, modes.HTTP2) }

func testAmbiguous(t *testing.T, m modes.Mode) {
	heads := []string{
		"Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 5", "Content-Length: +5",
		"Content-Length: -1", "Content-Length: 0x5", "Content-Length:", "Content-Length : 5",
		"Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: gzip, chunked",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity",
		"X: a\r\n folded", "X: a\rContent-Length: 5", "Content-Length: 5\nX: a",
		"Content-Length: 99999999999999999999",
	}
	o := start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			if req.URL.Path == "/" {
				p.say(hello)
				continue
			}
			p.say("HTTP/1.1 200 OK\r\n%s\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
				heads[len(req.URL.Path)-2])
		}
	})
	f := serve(t, m, "/", []string{o.addr}, nil)
	c := f.Dial()
	for i, head := range heads {
		c.Send("GET /" + strings.Repeat("x", i+1) + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if g := read(c.R, "GET"); g.status != 502 {
			t.Errorf("%q: %v", head, g)
		}
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if g := read(c.R, "GET"); g.body != "hello" {
			t.Errorf("behind %q: %v", head, g)
		}
	}
}

// TestUnaskedUpgrade: a 101 that was not asked for, or to another protocol, is 502, and what comes
// behind it goes nowhere.
func TestUnaskedUpgrade(t *testing.T) {
	const upgrade = "Connection: Upgrade\r\nUpgrade: %s\r\n"
	for _, tt := range []struct{ asked, got, body string }{
		{"", "websocket", ""}, {"websocket", "h2c", ""}, {"h2c", "h2c", ""}, {"", "", ""},
		{"websocket", "", ""}, {"websocket", "websocket", "body"},
	} {
		o := start(t, func(p *originConn) {
			p.request()
			fields := ""
			if tt.got != "" {
				fields = strings.Replace(upgrade, "%s", tt.got, 1)
			}
			p.say("HTTP/1.1 101 Switching Protocols\r\n%s\r\n%s", fields, hello)
			p.drain()
		})
		f := serve(t, modes.Direct, "/", []string{o.addr}, nil)
		fields := ""
		if tt.asked != "" {
			fields = strings.Replace(upgrade, "%s", tt.asked, 1)
		}
		if tt.body != "" {
			fields += "Content-Length: 4\r\n"
		}
		if g := f.ask("POST /", fields, tt.body); g.status != 502 || g.err != nil {
			t.Errorf("%q for %q: %v", tt.got, tt.asked, g)
		}
		wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
	}
}

// TestSlowInterim: a client that is slow to take interim responses does not get the head of the
// answer before there is one.
func TestSlowInterim(t *testing.T) { modes.Run(t, testSlowInterim, modes.Direct, modes.HTTP2) }

func testSlowInterim(t *testing.T, m modes.Mode) {
	const many = 20
	said, taken := make(chan bool, 1), make(chan bool, 1)
	defer close(taken)
	o := start(t, func(p *originConn) {
		p.request()
		link := strings.Repeat("x", 500<<10)
		for range many {
			p.say("HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", link)
		}
		said <- true
		<-taken
		p.say("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
	})
	f := serve(t, m, "/", []string{o.addr},
		func(s *proxy.Settings) { s.MaxHeaderSize = 1 << 20 })
	c := f.DialBuffer(server.SlowReader)
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-said
	for range many {
		if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 103 {
			t.Fatal(std, err)
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := c.R.Peek(12); err == nil {
		t.Errorf("%q before the upstream has answered", b)
	}
	_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
	taken <- true
	if g := read(c.R, "GET"); g.status != 404 || g.body != "hello" {
		t.Error(g)
	}
}
