package tcpproxy_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
)

// TestSource: connections to an upstream come from the address, and a check begins with a header
// that names no client.
func TestSource(t *testing.T) {
	t.Parallel()
	from, heads := make(chan string, 100), make(chan string, 100)
	up := upstream(t, func(c *net.TCPConn) {
		from <- c.RemoteAddr().(*net.TCPAddr).IP.String()
		b, _ := io.ReadAll(c)
		heads <- string(b)
	})
	s := serve(t, one+"'"+up+
		"'\nsource = '127.0.0.9'\nproxy_protocol = 'v2'\nhealth = { interval = '1s' }")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { s.config.Listeners[0].Stream.Watch(ctx); close(ended) }()
	next := func(ch chan string) string {
		select {
		case v := <-ch:
			return v
		case <-time.After(wait.Patience):
			t.Fatal("no connection")
			return ""
		}
	}
	if a, h := next(from), next(heads); a != "127.0.0.9" ||
		h != "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" {
		t.Errorf("a check from %s with %q", a, h)
	}
	cancel()
	<-ended
	c := s.dial()
	says(t, c, "hi")
	_ = c.CloseWrite()
	if a, h := next(from), next(heads); a != "127.0.0.9" || !strings.HasSuffix(h, "hi") ||
		len(h) != 30 {
		t.Errorf("a client's from %s with %q", a, h)
	}
}
