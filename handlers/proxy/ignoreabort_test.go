package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHalfClosed: with ignore_client_abort, a client that closes only its sending side gets its
// answer, be it a short one or one that it does not take at once.
func TestHalfClosed(t *testing.T) {
	for _, long := range []bool{false, true} {
		for _, ignore := range []bool{false, true} {
			half, asked := make(chan bool), make(chan bool, 1)
			body := "hello"
			if long {
				body = strings.Repeat("hello ", 1<<19)
			}
			o := start(t, func(p *originConn) {
				if p.request() == nil {
					return
				}
				asked <- true
				<-half
				p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.IgnoreClientAbort, s.MaxIdle = ignore, 0
			})
			c := f.Dial()
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-asked
			c.CloseWrite()
			if !ignore { // the upstream's connection is closed
				if b, err := c.R.ReadByte(); err == nil {
					t.Errorf("%q", b)
				}
			}
			close(half)
			if g := read(c.R, "GET"); ignore && (g.status != 200 || g.body != body || g.err != nil) {
				t.Error(long, g.status, len(g.body), g.err)
			}
			c.Close()
		}
	}
}

// TestIgnoredAbort: with ignore_client_abort, an upstream comes to its end though its client has
// left; without, its connection is closed.
func TestIgnoredAbort(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		asked, left, end := make(chan bool, 1), make(chan bool), make(chan error, 1)
		o := start(t, func(p *originConn) {
			if p.request() == nil {
				return
			}
			p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
			asked <- true
			<-left
			var err error
			for range 64 {
				if _, err = io.WriteString(p, "10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n"); err != nil {
					break
				}
			}
			p.say("0\r\n\r\n")
			if err == nil {
				_, err = p.r.ReadByte() // the proxy has read all, and closes
			}
			end <- err
		})
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.IgnoreClientAbort, s.MaxIdle, s.ResponseBuffering = ignore, 0, 0
			s.ReadTimeout = time.Minute
		})
		c := f.Dial()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		c.R.ReadByte()
		c.Close()
		close(left)
		if err := <-end; (err == io.EOF) != ignore {
			t.Errorf("ignore %t: %v", ignore, err)
		}
	}
}

// TestAbortInOneRead: with ignore_client_abort, an upstream's connection is right for the next
// request when a write to a client that has left fails amid the bytes of one read.
func TestAbortInOneRead(t *testing.T) {
	const ok, long = "HTTP/1.1 200 OK\r\n", 24 << 10 // more than is gathered, less than a read takes
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	chunk := "400\r\n" + strings.Repeat("x", 1<<10) + "\r\n"
	for name, answer := range map[string]struct{ begin, rest string }{ // the client sees begin
		"chunks": {chunked + "1\r\nx\r\n", strings.Repeat(chunk, 100) + "0\r\n\r\n"},
		"length": {fmt.Sprintf("%sContent-Length: %d\r\n\r\nx", ok, 1+long), strings.Repeat("x", long)},
		"103": {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
			ok + "Content-Length: 5\r\n\r\nfirst"},
		"trailer": {"", chunked + "5\r\nfirst\r\n0\r\nX-End: 1\r\n\r\n"},
	} {
		asked, left := make(chan bool, 1), make(chan bool)
		o := start(t, func(p *originConn) {
			for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
				if req.URL.Path != "/first" {
					p.say(hello)
					continue
				}
				p.say("%s", answer.begin)
				asked <- true
				<-left
				p.say("%s", answer.rest)
			}
		})
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.IgnoreClientAbort, s.MaxConns, s.IdleTimeout = true, 1, wait.Patience
		})
		c := f.Dial()
		c.Send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		if answer.begin != "" {
			c.R.ReadByte()
		}
		must.Do(t, c.Conn.(*net.TCPConn).SetLinger(0)) // a reset
		c.Close()
		close(left)
		if g := f.get("/next"); g.status != 200 || g.body != "hello" {
			t.Errorf("%s: the next answer is %+v", name, g)
		}
		f.ask("POST "+last, "", "")
		if n := o.accepted.Load(); n != 1 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
}
