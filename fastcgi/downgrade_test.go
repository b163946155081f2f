package fastcgi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/server"
)

// TestDowngrade: whatever a client of HTTP/2 sends, an application gets the request that was meant,
// once, or nothing.
func TestDowngrade(t *testing.T) {
	got := make(chan string, 10)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		r := c.Read()
		got <- strings.Join([]string{r.Get("REQUEST_METHOD"), r.Get("REQUEST_URI"), r.Get("HTTP_HOST"),
			r.Get("CONTENT_LENGTH"),
			string(r.Body), r.Get("HTTP_EVIL"), r.Get("HTTP_TRANSFER_ENCODING")}, "|")
		c.Reply(okHead)
	})
	p := serve(t, []string{up.Address}, nil)
	p.Server = module.Start(t, modes.HTTP2, "/", p.handler)
	for _, d := range server.Downgrades {
		if status := p.SendDowngrade(d); status != d.Status {
			t.Errorf("%s: %d, want %d", d.Name, status, d.Status)
		}
		if d.Status == 200 {
			uri := "/x.php"
			if strings.HasPrefix(d.Name, "encoded") {
				uri = d.Fields[1]
			}
			if r, want := <-got, fmt.Sprintf("POST|%s|test.example|%d|%s||", uri, len(d.Content),
				d.Content); r != want {
				t.Errorf("%s: %q, want %q", d.Name, r, want)
			}
		}
		p.Settle()
		select {
		case r := <-got:
			t.Errorf("%s: the application got %q", d.Name, r)
		default:
		}
	}
}
