package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestDropped: a body that the client does not get is not waited for, however long it is or takes.
// A short one leaves the connection of use.
func TestDropped(t *testing.T) {
	t.Parallel()
	modes.Run(t, testDropped, modes.Direct, modes.HTTP2)
}

func testDropped(t *testing.T, m modes.Mode) {
	endless := func(head string) func(*originConn) {
		return func(p *originConn) {
			p.request()
			p.say("%s", head)
			piece := []byte(strings.Repeat("x", 64<<10))
			for _, err := p.Write(piece); err == nil; _, err = p.Write(piece) {
			}
		}
	}
	stalled := func(answer string) func(*originConn) {
		return func(p *originConn) { p.request(); p.say("%s", answer); p.drain() }
	}
	cut := func(answer string) func(*originConn) {
		return func(p *originConn) { p.request(); p.say("%s", answer) }
	}
	for _, status := range []string{"500 Oops", "205 Reset Content"} {
		line := "HTTP/1.1 " + status + "\r\n"
		for name, script := range map[string]func(*originConn){
			"endless":         endless(line + "\r\n"),
			"endless, length": endless(line + "Content-Length: 1000000000000\r\n\r\n"),
			"stalled":         stalled(line + "Content-Length: 5\r\n\r\nhe"),
			"stalled chunk":   stalled(line + "Transfer-Encoding: chunked\r\n\r\n5\r\nhe"),
			"cut":             cut(line + "Content-Length: 5\r\n\r\nhe"),
			"malformed":       cut(line + "Transfer-Encoding: chunked\r\n\r\nx\r\n"),
		} {
			o := start(t, script)
			f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.InterceptErrors, s.ReadTimeout = true, wait.Patience
			})
			g := f.get("/")
			if g.err != nil || g.status != int(status[0]-'0')*100+int(status[2]-'0') ||
				strings.Contains(g.body, "<h1>") != (status[0] == '5') {
				t.Errorf("%s, %s: %d %.50q %v", status, name, g.status, g.body, g.err)
			}
			wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
		}
		o := start(t, always(line+"Content-Length: 5\r\n\r\nhello"))
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.InterceptErrors, s.IdleTimeout = true, wait.Patience
		})
		f.get("/")
		f.get("/")
		f.ask("POST "+last, "", "")
		if n := o.accepted.Load(); n != 1 {
			t.Errorf("%s: %d connections", status, n)
		}
	}
}

// TestFieldsOfTheConnection: what is about the upstream's connection, hidden, or for the server
// alone, stays here: in interim responses, the head and the trailer.
func TestFieldsOfTheConnection(t *testing.T) {
	const fields = "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-Hidden: 1\r\nX-Shown: 1\r\n" +
		"X-Sendfile: /srv/a\r\nX-Accel-Redirect: /a\r\nX-Accel-Expires: 5\r\n"
	const answer = "HTTP/1.1 103 Early Hints\r\n" + fields + "\r\n" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + fields + "\r\n" +
		"5\r\nhello\r\n0\r\nProxy-Authenticate: x\r\n" + fields + "\r\n"
	o := start(t, always(answer))
	f := serve(t, modes.Direct, "/", []string{o.addr},
		func(s *proxy.Settings) { s.HideHeader = []string{"x-hidden"} })
	c := f.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	got := server.Rest(t, c.R)
	for _, name := range []string{"X-Hop", "Keep-Alive", "X-Hidden", "Proxy-Authenticate",
		"X-Sendfile", "X-Accel-Redirect", "X-Accel-Expires"} {
		if strings.Contains(got, name+":") {
			t.Errorf("%s in %q", name, got)
		}
	}
	if n := strings.Count(got, "X-Shown: 1\r\n"); n != 3 {
		t.Errorf("%d of 3 fields in %q", n, got)
	}
}

// TestEndlessAnswer: an upstream that always has more to say does not keep the rest of the request
// from being sent to it.
func TestEndlessAnswer(t *testing.T) { modes.Run(t, testEndlessAnswer, modes.Direct, modes.HTTP2) }

func testEndlessAnswer(t *testing.T, m modes.Mode) {
	const size = 1 << 30
	o := start(t, func(p *originConn) {
		p.head()
		read := make(chan bool)
		go func() {
			defer close(read)
			buf := make([]byte, 64<<10)
			for n := 0; n < 20; {
				k, err := p.r.Read(buf)
				if n += k; err != nil {
					return
				}
			}
		}()
		p.say("HTTP/1.1 200 OK\r\n\r\n")
		piece := []byte(strings.Repeat("x", 256<<10))
		for sent := 0; sent < size; sent += len(piece) {
			if _, err := p.Write(piece); err != nil {
				return
			}
			select {
			case <-read:
				p.say("end after %d MiB", sent>>20)
				return
			default:
			}
		}
	})
	f := serve(t, m, "/", []string{o.addr},
		func(s *proxy.Settings) { s.RequestBuffering, s.ResponseBuffering = false, 0 })
	c := f.Dial()
	c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\nConnection: close\r\n\r\n0123456789")
	c.R.Peek(1)
	c.Send("0123456789")
	tail, buf := "", make([]byte, 1<<20)
	for err := error(nil); err == nil; {
		var n int
		n, err = c.R.Read(buf)
		tail += string(buf[:n])
		tail = tail[max(len(tail)-30, 0):]
	}
	if i := strings.LastIndex(tail, "end after"); i < 0 {
		t.Error("the request was not sent")
	} else {
		t.Log(tail[i:])
	}
}
