package conn_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestHijackedBehindProxy: to a handler that takes the connection over, and in the log, the other
// end is the client, and not the proxy that has said so.
func TestHijackedBehindProxy(t *testing.T) {
	tell := func(c net.Conn) {
		_, halves := c.(interface{ CloseWrite() error })
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n%v %v %t\n", c.RemoteAddr(),
			c.LocalAddr(), halves)
		c.Close()
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		tell(c)
	})
	handlers := map[string]conn.Handler{
		"/": func(_ *conn.Request, resp *conn.Response) int {
			c, _, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 0
			}
			tell(c)
			return 0
		},
		"/http":   conn.HTTP(std),
		"/onloop": conn.HTTPOnLoop(std),
	}
	const forwarded = "X-Forwarded-For: 192.0.2.1\r\n"
	run(t, func(t *testing.T, m mode) {
		log := make(remotes, 1)
		believing := conn.Config{Handler: byPath(handlers), AccessLog: log,
			Proxies: only(trusting("127.0.0.1/32", "unix:"))}
		s := start(t, m, believing)
		headed := believing
		headed.Proxies = only(withProtocol(trusting("127.0.0.1/32")))
		var p *site
		if m != modes.OverUNIX {
			p = start(t, m, headed)
		}
		for path := range handlers {
			check := func(c *client, fields, want, local string) {
				t.Helper()
				send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n")
				if got := c.Answer("GET"); got.StatusCode != 101 {
					t.Fatal(got.Status)
				}
				line, err := c.R.ReadString('\n')
				if text := want + " " + local + " true\n"; line != text || err != nil {
					t.Errorf("%s %q: %q, %v, want %q", path, fields, line, err, text)
				}
				if got := <-log; got != want && want != "" {
					t.Errorf("%s %q: logged %s, want %s", path, fields, got, want)
				}
				c.Close()
			}
			c := s.Dial()
			check(c, forwarded, "192.0.2.1:0", s.Addr)
			if p == nil {
				continue
			}
			c = s.Dial()
			check(c, "", c.LocalAddr().String(), s.Addr)
			c = dialHeaded(p, line1, false)
			check(c, "", "192.0.2.1:56324", p.Addr)
		}
	}, plain, direct, overTLS, modes.OverUNIX)
}
