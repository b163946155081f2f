package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/server"
)

// TestReplacedBody: an upstream gets the body that a middleware of net/http has put in the place of
// the client's, however it comes, and never gets one as whole that has failed. The loop goes on
// while it stalls.
func TestReplacedBody(t *testing.T) {
	modes.Run(t, testReplacedBody, modes.Direct, modes.HTTP2)
}

func testReplacedBody(t *testing.T, m modes.Mode) {
	whole := make(chan string, 2)
	o := start(t, func(p *originConn) {
		for {
			req, err := http.ReadRequest(p.r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			if req.Method == "POST" {
				whole <- string(body)
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	for name, form := range map[string]func(func(http.Handler) http.Handler) func(conn.Handler,
	) conn.Handler{"off the loop": conn.HTTPMiddleware, "on the loop": conn.HTTPMiddlewareOnLoop} {
		for _, r := range module.Replacing() {
			if r.Stalls != nil && name == "on the loop" {
				continue // where nothing may wait
			}
			for _, buffering := range []bool{false, true} {
				f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
					s.RequestBuffering = buffering
				})
				s := module.Start(t, m, "/", form(r.Middleware)(f.handler))
				for framing, body := range map[string]string{"Content-Length: 10": "0123456789",
					"Transfer-Encoding: chunked": "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"} {
					t.Run(fmt.Sprint(name, ", ", r.Name, ", ", buffering, ", ", framing), func(t *testing.T) {
						c := s.Dial()
						defer c.Close()
						c.Send("POST / HTTP/1.1\r\nHost: a\r\n" + framing + "\r\n\r\n" + body)
						if r.Stalls != nil {
							<-r.Stalls
							if a := s.Request("GET /", nil, ""); a.Text != "ok" {
								t.Errorf("meanwhile: %d %q", a.StatusCode, a.Text)
							}
							r.GoOn <- true
						}
						a := c.Answer("POST")
						switch {
						case r.Want == "":
							if a.StatusCode < 400 {
								t.Errorf("%d %q", a.StatusCode, a.Text)
							}
						case a.StatusCode != 200:
							t.Errorf("%d %q; log: %s", a.StatusCode, a.Text, f.log)
						default:
							if got := <-whole; got != r.Want {
								t.Errorf("the upstream got %q, want %q", server.Clip(got), server.Clip(r.Want))
							}
						}
						if len(whole) > 0 {
							t.Errorf("the upstream got %q as whole", server.Clip(<-whole))
						}
					})
				}
			}
		}
	}
}
