package fastcgi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

const (
	get  = "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n"
	post = "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n"
)

// phases are the places in a request's life at which its client may leave.
var phases = []struct {
	name   string
	script fcgitest.Script
	wire   string
	change func(*fastcgi.Settings)
	asked  bool // the application is, before the client leaves
	moves  bool // bytes still do, and a write that fails may tell that the client is gone
}{
	{"in the upload", answers("hello"), post + "x", nil, false, false},
	{"in a chunked upload", answers("hello"),
		"POST /x.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", nil, false,
		false},
	{"in a streamed upload", func(c *fcgitest.Conn) { c.ReadHead(); c.Gone(time.Minute) }, post +
		"x", streamed, true, false},
	{"in an upload that is answered", func(c *fcgitest.Conn) {
		c.ReadHead()
		c.Stdout(okHead + "x")
		c.Gone(time.Minute)
	}, post + "x", streamed, true, false},
	{"while it is sent", func(c *fcgitest.Conn) { c.ReadHead(); c.Gone(time.Minute) },
		post + strings.Repeat("x", 9000000), nil, true, false},
	{"before the answer", func(c *fcgitest.Conn) { c.Read(); c.Hang() }, get, nil, true, false},
	{"in the header", func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead[:5]); c.Hang() }, get, nil,
		true, false},
	{"in the body", func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead + "x"); c.Hang() }, get, nil,
		true, false},
	{"in an endless body", endless, get, nil, true, true},
	{"in a spooled body", endless, get, func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 },
		true, true},
}

func streamed(s *fastcgi.Settings) { s.RequestBuffering = false }

func endless(c *fcgitest.Conn) {
	c.Read()
	for c.Stdout(okHead); ; {
		c.Stdout(strings.Repeat("x", 60000))
	}
}

// TestClientLeaves: in whatever phase a client closes or resets its connection, the upstream's
// connection is closed, no application gets half of an upload, and the log has no warning and no
// error.
func TestClientLeaves(t *testing.T) {
	for _, tt := range phases {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reset %v", tt.name, reset), func(t *testing.T) {
				t.Parallel()
				up := fcgitest.Start(t, "unix", tt.script)
				p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
					s.ReadTimeout, s.SendTimeout = 10*wait.Patience, 10*wait.Patience
					if tt.change != nil {
						tt.change(s)
					}
				})
				c := p.Dial()
				must.Get(io.WriteString(c, tt.wire))(t)
				if tt.asked {
					requests(t, up, 1)
				} else {
					wait.Until(t, "the client is in", func() bool { return p.Active() == 1 })
				}
				if tt.name == "in the body" {
					must.Get(bufio.NewReader(c).Peek(1))(t)
				}
				if reset {
					must.Do(t, c.TCP().SetLinger(0))
				}
				c.Close()
				if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
					t.Fatal("the upstream is not closed")
				}
				wait.Until(t, "the client is gone", func() bool { return p.Active() == 0 })
				if n := up.Accepted(); n > 0 && !tt.asked {
					t.Error("the application is asked")
				}
				if log := p.log.String(); strings.Contains(log, "level=ERROR") ||
					strings.Contains(log, "level=WARN") {
					t.Error(log)
				}
			})
		}
	}
}

// TestGoneAtOnce: when the server knows that the client is gone, it closes the upstream's
// connection within 100 ms, in every phase, and the thread ends. The best of some tries counts: in
// the others the test itself may have waited for a processor.
func TestGoneAtOnce(t *testing.T) {
	for _, tt := range phases {
		if !tt.asked {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan time.Time, 1)
			up := fcgitest.Start(t, "unix", tt.script)
			h := must.Get(module.Build(t, fastcgi.Register, "fastcgi", env(t),
				func(s *fastcgi.Settings) {
					s.Address, s.ScriptPath, s.CheckFile = []string{up.Address}, ".", false
					if tt.change != nil {
						tt.change(s)
					}
				}))(t)
			s := module.Start(t, modes.Direct, "/",
				func(req *conn.Request, resp *conn.Response) int {
					ctx := req.Context()
					context.AfterFunc(ctx, func() {
						// Where bytes move, the request may end before the server knows why.
						if why := context.Cause(ctx); why != loop.ErrClientGone && !tt.moves {
							t.Error("the request has ended first: ", why)
						}
						left <- time.Now()
					})
					return h(req, resp)
				})
			best := time.Hour
			for try := 1; best > 100*time.Millisecond; try++ {
				if try == 20 {
					t.Fatal("closed after ", best)
				}
				c := s.Dial()
				must.Get(io.WriteString(c, tt.wire))(t)
				if !up.Wait(wait.Patience,
					func(_, _, requests int) bool { return requests == try }) {
					t.Fatal("no request")
				}
				c.Close()
				if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
					t.Fatal("the upstream's connection is not closed")
				}
				closed := time.Now()
				best = min(best, closed.Sub(<-left))
			}
			wait.Until(t, "the client's thread has ended",
				func() bool { return s.Active() == 0 })
		})
	}
}

// TestQueuedClientLeaves: a client that leaves while its request waits for a connection makes room
// in the queue.
func TestQueuedClientLeaves(t *testing.T) {
	answer := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		<-answer
		c.Reply(okHead + "hello")
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.MaxConns, s.MaxQueue, s.ReadTimeout = 1, 1, time.Minute
	})
	send := func(wire string) net.Conn {
		c := p.Dial()
		must.Get(io.WriteString(c, wire))(t)
		return c
	}
	first := send(get)
	up.Wait(wait.Patience, func(_, _, requests int) bool { return requests == 1 })
	// Of two, whichever comes first, one waits and the other finds the queue full.
	two := [2]net.Conn{send(get), send(get)}
	refused := make(chan int, 2)
	for i, c := range two {
		go func() {
			if g := read(bufio.NewReader(c), "GET"); g.status == 503 {
				refused <- i
			}
		}()
	}
	<-refused
	for _, c := range two {
		c.Close()
	}
	wait.Until(t, "both have left", func() bool { return p.Active() == 1 })
	third := make(chan got)
	go func() { third <- p.get("/z.php") }()
	wait.Until(t, "it has come", func() bool { return p.Active() == 2 })
	p.Settle()
	close(answer)
	if g := read(bufio.NewReader(first), "GET"); g.body != "hello" {
		t.Error(g)
	}
	if g := <-third; g.body != "hello" || up.Accepted() != 2 {
		t.Error(g, up.Accepted())
	}
}

// TestClientAbortIgnored: the script runs to its end, whether its answer would be spooled or not.
func TestClientAbortIgnored(t *testing.T) {
	for _, limit := range []handlers.Size{0, 100 << 10, 8 << 20} {
		left := make(chan bool)
		var complete atomic.Bool
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			c.Stdout(okHead)
			<-left
			for range 16 {
				c.Stdout(strings.Repeat("x", 1<<20))
			}
			c.End()
			complete.Store(true)
			c.Hang()
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.IgnoreClientAbort, s.ReadTimeout, s.ResponseBuffering = true, time.Minute, limit
		})
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		must.Get(bufio.NewReader(c).ReadByte())(t)
		c.Close()
		if up.Wait(50*time.Millisecond, func(_, open, _ int) bool { return open == 0 }) {
			t.Fatal("closed")
		}
		close(left)
		if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) ||
			!complete.Load() {
			t.Error("the script has not run to its end")
		}
	}
}

// TestHalfClosed: with ignore_client_abort, a client that closes only its sending side gets its
// answer, be it the application's or the server's own page.
func TestHalfClosed(t *testing.T) {
	for _, intercept := range []bool{false, true} {
		half := make(chan bool)
		up := fcgitest.Start(t, "unix",
			func(c *fcgitest.Conn) { c.Read(); <-half; c.Reply("Status: 500\r\n\r\ntheirs") })
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.IgnoreClientAbort, s.InterceptErrors, s.ReadTimeout = true, intercept, time.Minute
		})
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		requests(t, up, 1)
		c.CloseWrite()
		close(half)
		if g := read(bufio.NewReader(c), "GET"); g.status != 500 ||
			(g.body == "theirs") == intercept {
			t.Error(intercept, g)
		}
	}
}
