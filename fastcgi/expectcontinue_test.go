package fastcgi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestAskedAtOnce: with request_buffering = false an application may answer before a byte of the
// body has come, and a client that waits for 100 (Continue) gets that at once.
func TestAskedAtOnce(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		head := c.ReadHead()
		c.Stdout("Status: 403 No\r\n" + okHead + head.Env["REQUEST_METHOD"])
		c.End()
		c.Hang()
	})
	overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false },
		func(t *testing.T, p *proxy) {
			c := p.Dial()
			c.Send("POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
			if a := c.Answer("POST"); a.StatusCode != http.StatusForbidden {
				t.Error(a.Status)
			}
		})

	up = fcgitest.Start(t, "unix", echo)
	overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false },
		func(t *testing.T, p *proxy) {
			c := p.Dial()
			c.Send("POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
			for line := ""; line != "\r\n"; {
				var err error
				if line, err = c.R.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(line, "HTTP/") && !strings.Contains(line, " 100 ") &&
					!strings.Contains(line, " 200 ") {
					t.Errorf("%q", line)
				}
			}
			if a := c.Do("POST", "hello"); a.Text != "hello" {
				t.Errorf("%q", a.Text)
			}
		})
}
