package proxy_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/modes"
)

// TestUpgradeHTTP2: an upstream of HTTP/1.1 gets the handshake of a WebSocket that a client of
// HTTP/2 opens, and bytes go both ways until one side ends.
func TestUpgradeHTTP2(t *testing.T) {
	key := regexp.MustCompile(`Sec-WebSocket-Key: [A-Za-z0-9+/]{22}==\r\n`)
	o := start(t, func(p *originConn) {
		head := p.head()
		if !strings.HasPrefix(head, "GET /chat HTTP/1.1\r\n") ||
			!strings.Contains(head, "Upgrade: websocket\r\nConnection: Upgrade\r\n") ||
			!key.MatchString(http1Case(head)) {
			t.Errorf("%q", head)
		}
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Accept: a\r\nX-Own: y\r\n\r\nearly")
		io.Copy(p, p.r)
		p.say("late")
	})
	for _, m := range []modes.Mode{modes.HTTP2, modes.HTTP2TLS} {
		f := serve(t, m, "/", []string{o.addr}, nil)
		c := f.Dial()
		c.Send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nfirst")
		std, err := http.ReadResponse(c.R, nil)
		if err != nil || std.StatusCode != 101 || std.Header.Get("X-Own") != "y" {
			t.Fatal(std, err, f.log)
		}
		got := make([]byte, len("earlyfirst"))
		if _, err := io.ReadFull(c.R, got); err != nil || string(got) != "earlyfirst" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
		f.Idle()
	}
}

func http1Case(head string) string {
	return strings.ReplaceAll(head, "sec-websocket-key", "Sec-WebSocket-Key")
}
