package fastcgi_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
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
	module.SendReplaced(t, modes.Direct, "/a.php", whole, func(buffering bool) (conn.Handler, fmt.Stringer) {
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.RequestBuffering = buffering })
		return p.handler, p.log
	})
}
