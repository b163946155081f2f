package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// overBoth runs a test with a plain server and one over TLS.
func overBoth(t *testing.T, up *fcgitest.Upstream, change func(*fastcgi.Settings),
	test func(*testing.T, *proxy)) {
	for _, tls := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "tls"}[tls], func(t *testing.T) {
			r := new(handlers.Registry)
			fastcgi.Register(r)
			p := route(t, r, "/", []string{up.Address}, nil, func(s *fastcgi.Settings) {
				s.CheckFile, s.ReadTimeout, s.SendTimeout = false, time.Minute, time.Minute
				change(s)
			})
			m := modes.Direct
			m.TLS = tls
			p.Server = module.Start(t, m, "/", p.handler)
			test(t, p)
		})
	}
}

// long is 12 MB of text, more than sockets take. If a piece is missing, or in another place, the
// text differs.
var long = sync.OnceValue(func() string {
	b := make([]byte, 0, 12<<20)
	for i := 1000000; len(b) < cap(b); i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return string(b)
})

// unread asks for a script and reads no more of the answer than comes with its first byte.
func (p *proxy) unread() (net.Conn, *bufio.Reader) {
	p.T.Helper()
	c := p.Dial()
	io.WriteString(c, get)
	r := bufio.NewReader(c)
	if _, err := r.Peek(1); err != nil {
		p.T.Fatal(err)
	}
	return c, r
}

// TestSlowReader: within response_buffering the application is let go of as soon as it has
// answered, though the client has read hardly a byte. Beyond that, without the setting, and if its
// header asks for that, the application waits for the client. In every case the client gets all
// that was sent, and then the cut if there was one.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	text := long()
	answer := func(head string) fcgitest.Script {
		return func(c *fcgitest.Conn) {
			c.Answer(head, text)
		}
	}
	for name, tt := range map[string]struct {
		limit  handlers.Size
		script fcgitest.Script
		waits  bool // the application does, for the client
		cut    bool
	}{
		"held": {16 << 20, answer(okHead), false, false},
		"with length": {16 << 20, answer(fmt.Sprintf("Content-Length: %d\r\n%s", len(text),
			okHead)), false, false},
		"cut": {16 << 20, func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead, text) },
			false, true},
		"small":  {1 << 10, answer(okHead), true, false},
		"memory": {32 << 10, answer(okHead), true, false},
		"file":   {1 << 20, answer(okHead), true, false},
		"off":    {0, answer(okHead), true, false},
		"asked":  {64 << 20, answer("X-Accel-Buffering: no\r\n" + okHead), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			up := fcgitest.Start(t, "unix", tt.script)
			overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = tt.limit },
				func(t *testing.T, p *proxy) {
					before := len(up.Requests())
					_, r := p.unread()
					done := func(_, open, n int) bool { return open == 0 && n > before }
					switch {
					case tt.waits && up.Wait(50*time.Millisecond, done):
						t.Error("the application has not waited")
					case !tt.waits && !up.Wait(wait.Patience, done):
						t.Fatal("a client that does not read holds the application")
					}
					if g := read(r, "GET"); g.body != text || (g.err != nil) != tt.cut {
						t.Error(g.status, len(g.body), g.err)
					}
				})
		})
	}
}

// TestSlowReaderOfPHP: the only worker serves another client while the first one has not read its
// 16 MB.
func TestSlowReaderOfPHP(t *testing.T) {
	f := startFPM(t, "unix", "pm.max_children = 1")
	p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
		s.ResponseBuffering, s.ReadTimeout = 32<<20, time.Minute
	})
	slow := p.Dial()
	fmt.Fprintf(slow, "GET /big.php?n=16000000 HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(slow)
	must.Get(r.Peek(1))(t) // the worker has it
	if g := p.get("/hello.php"); g.body != "Hello, world!" {
		t.Error(g)
	}
	if g := read(r, "GET"); g.err != nil || g.body != strings.Repeat("0123456789abcdef", 1e6) {
		t.Error(g.status, len(g.body), g.err)
	}
}

// TestSlowReaderLeaves: if the client leaves, the upstream's connection and the spool's file are
// closed at once, whatever their state. A response that breaks off does not look complete.
func TestSlowReaderLeaves(t *testing.T) {
	text := long()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout(okHead, text)
		c.Gone(time.Minute)
	})
	set := func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 }
	overBoth(t, up, set, func(t *testing.T, p *proxy) {
		c, _ := p.unread()
		c.Close()
		if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
			t.Error("the connection stays")
		}
	})
	cut := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout(okHead, text)
		c.Close()
	})
	overBoth(t, cut, set, func(t *testing.T, p *proxy) {
		if g := p.get("/x.php"); g.err == nil {
			t.Error("whole: ", g.status, len(g.body))
		}
	})
}

// TestSpoolWithoutFile: if no file can be had, the application goes at the client's pace, as it
// does without a spool.
func TestSpoolWithoutFile(t *testing.T) {
	text := long()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(okHead, text) })
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) { s.ResponseBuffering = 16 << 20 })
	t.Setenv("TMPDIR", "/nonexistent")
	_, r := p.unread()
	wait.Until(t, "the log says so", func() bool {
		return strings.Contains(p.log.String(), "cannot be spooled")
	})
	if g := read(r, "GET"); g.body != text || g.err != nil {
		t.Error(g.status, len(g.body), g.err)
	}
}

// TestEventsPassSpool: what the application has written goes out when it pauses.
func TestEventsPassSpool(t *testing.T) {
	next := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout("Content-Type: text/event-stream\r\n\r\n")
		for range 3 {
			<-next
			c.Stdout("data: x\n\n")
		}
		c.End()
		c.Hang()
	})
	overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 },
		func(t *testing.T, p *proxy) {
			c := p.Dial()
			fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
			r := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			for range 3 {
				next <- true
				b := make([]byte, len("data: x\n\n"))
				must.Get(io.ReadFull(r.Body, b))(t)
			}
		})
}
