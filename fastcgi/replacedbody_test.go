package fastcgi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/server"
)

// TestReplacedBody: an application gets the body that a middleware of net/http has put in the place
// of the client's, however it comes, and the length of that, if there is one; never one as whole
// that has failed. The loop goes on while it stalls.
func TestReplacedBody(t *testing.T) {
	whole := make(chan string, 2)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		for {
			r := c.Read()
			if r.Get("REQUEST_METHOD") == "POST" {
				if n := r.Get("CONTENT_LENGTH"); n != "" && n != strconv.Itoa(len(r.Body)) {
					t.Errorf("CONTENT_LENGTH %s for %d bytes", n, len(r.Body))
				}
				whole <- string(r.Body)
			}
			c.Reply(okHead + "ok")
		}
	})
	for name, form := range map[string]func(func(http.Handler) http.Handler) func(conn.Handler,
	) conn.Handler{"off the loop": conn.HTTPMiddleware, "on the loop": conn.HTTPMiddlewareOnLoop} {
		for _, r := range module.Replacing() {
			if r.Stalls != nil && name == "on the loop" {
				continue // where nothing may wait
			}
			for _, buffering := range []bool{false, true} {
				p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
					s.RequestBuffering = buffering
				})
				s := module.Start(t, modes.Direct, "/", form(r.Middleware)(p.handler))
				for framing, body := range map[string]string{"Content-Length: 10": "0123456789",
					"Transfer-Encoding: chunked": "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"} {
					t.Run(fmt.Sprint(name, ", ", r.Name, ", ", buffering, ", ", framing), func(t *testing.T) {
						c := s.Dial()
						defer c.Close()
						c.Send("POST /a.php HTTP/1.1\r\nHost: a\r\n" + framing + "\r\n\r\n" + body)
						if r.Stalls != nil {
							<-r.Stalls
							if a := s.Request("GET /a.php", nil, ""); a.Text != "ok" {
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
							t.Errorf("%d %q; log: %s", a.StatusCode, a.Text, p.log)
						default:
							if got := <-whole; got != r.Want {
								t.Errorf("the application got %q, want %q", server.Clip(got),
									server.Clip(r.Want))
							}
						}
						if len(whole) > 0 {
							t.Errorf("the application got %q as whole", server.Clip(<-whole))
						}
					})
				}
			}
		}
	}
}
