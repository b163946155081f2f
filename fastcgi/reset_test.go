package fastcgi_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestResetIsNoError: a client that resets its connection leaves no line that asks for attention, in whatever phase.
func TestResetIsNoError(t *testing.T) {
	const get = "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n"
	const post = "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\nx"
	const chunked = "POST /x.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"
	gone := func(c *fcgitest.Conn) { c.Gone(time.Minute) }
	streamed := func(s *fastcgi.Settings) { s.RequestBuffering = false }
	for name, tt := range map[string]struct {
		script fcgitest.Script
		wire   string
		change func(*fastcgi.Settings)
		asked  bool // the application is, before the client leaves
	}{
		"in the upload":         {answers("hello"), post, nil, false},
		"in a chunked upload":   {answers("hello"), chunked, nil, false},
		"in a streamed upload":  {func(c *fcgitest.Conn) { c.ReadHead(); gone(c) }, post, streamed, true},
		"in an answered upload": {func(c *fcgitest.Conn) { c.ReadHead(); c.Stdout(okHead + "x"); gone(c) }, post, streamed, true},
		"before the answer":     {func(c *fcgitest.Conn) { c.Read(); gone(c) }, get, nil, true},
		"in the header":         {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead[:5]); gone(c) }, get, nil, true},
		"in the body":           {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead + "x"); gone(c) }, get, nil, true},
		"in an endless body": {func(c *fcgitest.Conn) {
			c.Read()
			for c.Stdout(okHead); ; {
				c.Stdout(strings.Repeat("x", 60000))
			}
		}, get, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			up := fcgitest.Start(t, "unix", tt.script)
			p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
				s.ReadTimeout, s.SendTimeout = time.Minute, time.Minute
				if tt.change != nil {
					tt.change(s)
				}
			})
			c := p.Dial()
			if _, err := io.WriteString(c, tt.wire); err != nil {
				t.Fatal(err)
			}
			if tt.asked {
				if !up.Wait(10*time.Second, func(_, _, requests int) bool { return requests == 1 }) {
					t.Fatal("no request")
				}
			} else {
				eventually(t, "the client is in", func() bool { return p.Active() == 1 })
			}
			if err := c.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
			c.Close()
			eventually(t, "the client is gone", func() bool { return p.Active() == 0 })
			if log := p.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
				t.Error(log)
			}
		})
	}
}
