package proxy_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// TestWithin: a budget of time that a program's middleware sets ends the waits of the module, like
// its own limits, and no thread goes on waiting in vain.
func TestWithin(t *testing.T) {
	const upload = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
	for name, row := range map[string]struct {
		origin  func(p *originConn)
		request string
		status  int
		whole   bool
	}{
		"no answer": {func(p *originConn) { p.head(); io.Copy(io.Discard, p.r) },
			"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 504, true},
		"half an answer": {func(p *originConn) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			io.Copy(io.Discard, p.r)
		}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, false},
		"half an upload": {func(p *originConn) { p.head(); io.Copy(io.Discard, p.r) }, upload, 504, true},
		"half of both": {func(p *originConn) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			io.Copy(io.Discard, p.r)
		}, upload, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			modes.Run(t, func(t *testing.T, m modes.Mode) {
				f := serve(t, m, "/", []string{start(t, row.origin).addr}, unbuffered)
				over := make(chan error, 1)
				s := module.Start(t, m, "/", func(req *conn.Request, resp *conn.Response) (status int) {
					defer func() { over <- req.Sleep(0) }() // not if the thread was killed
					_ = req.Within(100*time.Millisecond, func() error {
						status = f.handler(req, resp)
						return nil
					})
					return status
				})
				c := s.Dial()
				defer c.Close()
				send := strings.NewReader(row.request)
				if _, err := io.Copy(c, send); err != nil {
					t.Fatal(err)
				}
				g := read(c.R, strings.Fields(row.request)[0])
				if g.status != row.status || (g.err == nil) != row.whole {
					t.Errorf("got %+v", g)
				}
				if err := <-over; err != nil {
					t.Error(err)
				}
			}, modes.Plain, modes.HTTP2)
		})
	}
}
