package fastcgi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/modtest"
)

// overBoth runs a test with a plain server and one over TLS.
func overBoth(t *testing.T, up *fcgitest.Upstream, change func(*fastcgi.Settings), test func(*testing.T, *proxy)) {
	for _, tls := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "tls"}[tls], func(t *testing.T) {
			r := new(handlers.Registry)
			fastcgi.Register(r)
			p := route(t, r, "/", []string{up.Address}, nil, func(s *fastcgi.Settings) {
				s.CheckFile, s.ReadTimeout, s.SendTimeout = false, time.Minute, time.Minute
				change(s)
			})
			start := modtest.Start
			if tls {
				start = modtest.StartTLS
			}
			p.Server = start(t, "/", p.handler, coro.Direct)
			test(t, p)
		})
	}
}

func echo(c *fcgitest.Conn) {
	c.ReadHead()
	c.Stdout(okHead)
	c.Echo()
	c.End()
	c.Hang()
}

// TestUploadBothWays: while the next bytes of an upload are waited for, what the application says to those before
// reaches the client.
func TestUploadBothWays(t *testing.T) {
	up := fcgitest.Start(t, "unix", echo)
	overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false }, func(t *testing.T, p *proxy) {
		c := p.Dial()
		const n = 50
		fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n*5)
		var r *http.Response
		for i := range n {
			piece := fmt.Sprintf("%04d\n", i)
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
			if r == nil {
				var err error
				if r, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
					t.Fatal(err)
				}
			}
			b := make([]byte, len(piece))
			if _, err := io.ReadFull(r.Body, b); err != nil || string(b) != piece {
				t.Fatalf("%q, %v, want %q", b, err, piece)
			}
		}
		if b, err := io.ReadAll(r.Body); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}

		big := strings.Repeat("0123456789abcdef", 5<<20/16)
		if g := p.request("PUT /x.php", nil, big); g.body != big || g.err != nil {
			t.Error("5 MB: ", g.status, len(g.body), g.err)
		}
		if g := p.request("PUT /x.php", []string{"Transfer-Encoding: chunked"}, "5\r\nhello\r\n0\r\n\r\n"); g.body != "hello" {
			t.Error("chunked, which is spooled: ", g)
		}
	})
}

// TestUploadStops: a client that sends no more, or leaves, in the middle of an upload has the upstream's connection
// closed, whether an answer has begun or not.
func TestUploadStops(t *testing.T) {
	for _, answered := range []bool{false, true} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.ReadHead()
			if answered {
				c.Stdout(okHead + "begun")
			}
			c.Gone(time.Minute)
		})
		overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false }, func(t *testing.T, p *proxy) {
			c := p.Dial()
			fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
			if answered {
				if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
					t.Fatal(err)
				}
			} else if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 1 }) {
				t.Fatal("no connection")
			}
			c.Close()
			if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
				t.Error("the connection stays")
			}
		})
	}
}

// TestUnreadUploadIsNotKept: an application that answers before it has the whole of a body leaves a connection on which the
// next request would be taken for the rest.
func TestUnreadUploadIsNotKept(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.ReadHead()
		c.Stdout(okHead + "enough")
		c.End()
		c.Gone(time.Minute)
	})
	overBoth(t, up, func(s *fastcgi.Settings) {
		s.RequestBuffering, s.KeepConn, s.IdleTimeout = false, true, time.Hour
	}, func(t *testing.T, p *proxy) {
		c := p.Dial()
		fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); string(b) != "enough" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
			t.Error("the connection is kept")
		}
	})
}

// long is 12 MB of text, which is more than sockets take, in which a piece that is missing, or in another place, shows.
var long = sync.OnceValue(func() string {
	b := make([]byte, 0, 12<<20)
	for i := 1000000; len(b) < cap(b); i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return string(b)
})

// TestSlowReader: with response_buffering the application is let go of as soon as it has answered, though the client
// has read hardly a byte; and the client gets everything.
func TestSlowReader(t *testing.T) {
	text := long()
	for _, length := range []bool{false, true} {
		head := okHead
		if length {
			head = fmt.Sprintf("Content-Length: %d\r\n%s", len(text), okHead)
		}
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(head, text) })
		overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = 16 << 20 }, func(t *testing.T, p *proxy) {
			before := len(up.Requests())
			c := p.Dial()
			fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
			r := bufio.NewReader(c)
			if _, err := r.Peek(1); err != nil { // no more than is read with it
				t.Fatal(err)
			}
			if !up.Wait(10*time.Second, func(_, open, requests int) bool { return open == 0 && requests > before }) {
				t.Fatal("the application is held by a client that does not read")
			}
			if g := read(r, "GET"); g.body != text || g.err != nil {
				t.Error(g.status, len(g.body), g.err)
			}
		})
	}
}

// TestSlowReaderOfPHP: the only worker serves somebody else while a client has not read its 16 MB.
func TestSlowReaderOfPHP(t *testing.T) {
	f := startFPM(t, "unix", "pm.max_children = 1")
	p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
		s.ResponseBuffering, s.ReadTimeout = 32<<20, time.Minute
	})
	slow := p.Dial()
	fmt.Fprintf(slow, "GET /big.php?n=16000000 HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(slow)
	if _, err := r.Peek(1); err != nil { // the worker has it
		t.Fatal(err)
	}
	if g := p.get("/hello.php"); g.body != "Hello, world!" {
		t.Error(g)
	}
	if g := read(r, "GET"); g.err != nil || g.body != strings.Repeat("0123456789abcdef", 1e6) {
		t.Error(g.status, len(g.body), g.err)
	}
}

// TestBounded: beyond the limit the application waits for the client, as it does without the setting, and where it asks
// for that itself; what passes through a spool that is smaller than the answer is not harmed.
func TestBounded(t *testing.T) {
	text := long()
	for name, tt := range map[string]struct {
		limit handlers.Size
		head  string
	}{
		"small":  {1 << 10, okHead},
		"memory": {32 << 10, okHead},
		"file":   {1 << 20, okHead},
		"off":    {0, okHead},
		"asked":  {64 << 20, "X-Accel-Buffering: no\r\n" + okHead},
	} {
		t.Run(name, func(t *testing.T) {
			up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(tt.head, text) })
			overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = tt.limit }, func(t *testing.T, p *proxy) {
				c := p.Dial()
				fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
				r := bufio.NewReader(c)
				if _, err := r.Peek(1); err != nil {
					t.Fatal(err)
				}
				if up.Wait(50*time.Millisecond, func(_, open, _ int) bool { return open == 0 }) {
					t.Error("the application has not waited")
				}
				if g := read(r, "GET"); g.body != text || g.err != nil {
					t.Error(g.status, len(g.body), g.err)
				}
			})
		})
	}
}

// TestSlowReaderLeaves: the upstream's connection is closed at once, and the spool's file, whatever state they are in;
// and a response that breaks off does not pass for a whole one.
func TestSlowReaderLeaves(t *testing.T) {
	text := long()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout(okHead, text)
		c.Gone(time.Minute)
	})
	set := func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 }
	overBoth(t, up, set, func(t *testing.T, p *proxy) {
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := bufio.NewReader(c).Peek(1); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
			t.Error("the connection stays")
		}
	})
	cut := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead, text); c.Close() })
	overBoth(t, cut, set, func(t *testing.T, p *proxy) {
		if g := p.get("/x.php"); g.err == nil {
			t.Error("whole: ", g.status, len(g.body))
		}
	})
}

// TestSlowReaderOfCut: what the application has sent before it failed is the client's, and then the cut, spooled or not.
func TestSlowReaderOfCut(t *testing.T) {
	text := long()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead, text) })
	overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = 16 << 20 }, func(t *testing.T, p *proxy) {
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		r := bufio.NewReader(c)
		if _, err := r.Peek(1); err != nil {
			t.Fatal(err)
		}
		if !up.Wait(10*time.Second, func(_, open, _ int) bool { return open == 0 }) {
			t.Fatal("the application is held")
		}
		if g := read(r, "GET"); g.body != text || g.err == nil {
			t.Error(g.status, len(g.body), g.err)
		}
	})
}

// TestSpoolWithoutFile: where there is no room for what is to be spooled, the client's pace is the application's, as it
// would be without.
func TestSpoolWithoutFile(t *testing.T) {
	text := long()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(okHead, text) })
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.ResponseBuffering = 16 << 20 })
	t.Setenv("TMPDIR", "/nonexistent")
	c := p.Dial()
	fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(c)
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says so", func() bool { return strings.Contains(p.log.String(), "cannot be spooled") })
	if g := read(r, "GET"); g.body != text || g.err != nil {
		t.Error(g.status, len(g.body), g.err)
	}
}

// TestEventsPassSpool: what there is goes out when the application pauses.
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
	overBoth(t, up, func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 }, func(t *testing.T, p *proxy) {
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			next <- true
			b := make([]byte, len("data: x\n\n"))
			if _, err := io.ReadFull(r.Body, b); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSpool: what is read is what was written, whatever the sizes.
func TestSpool(t *testing.T) {
	source := rand.NewChaCha8([32]byte{})
	for range 20 {
		const limit = 100 << 10
		s := fastcgi.NewSpool(limit + 32<<10)
		var want, got bytes.Buffer
		p := make([]byte, 32<<10)
		for range 400 {
			if n := rand.IntN(len(p)); s.Len() < limit {
				source.Read(p[:n])
				want.Write(p[:n])
				if err := s.Write(p[:n]); err != nil {
					t.Fatal(err)
				}
			}
			if n := 1 + rand.IntN(len(p)); s.Len() > 0 && rand.IntN(3) > 0 {
				n, err := s.Read(p[:n])
				if n == 0 || err != nil {
					t.Fatal(n, err)
				}
				got.Write(p[:n])
			}
			if have := int64(want.Len() - got.Len()); s.Len() != have {
				t.Fatal(s.Len(), " bytes, want ", have)
			}
		}
		for s.Len() > 0 {
			n, err := s.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(p[:n])
		}
		if !bytes.Equal(want.Bytes(), got.Bytes()) {
			t.Fatal("not the same")
		}
		s.Drop()
	}
}
