package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestTunnelResets: a reset is passed on, in both directions, behind all that was said before: who has
// lost the other must not take that for an orderly end.
func TestTunnelResets(t *testing.T) {
	modes.Run(t, testTunnelResets, modes.Direct, modes.OverTLS)
}

func testTunnelResets(t *testing.T, m modes.Mode) {
	const size = 4 << 20
	got := make(chan error, 1)
	proceed := make(chan bool)
	o := start(t, func(p *peer) {
		req := p.request()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		if req.URL.Path == "/client" {
			_, err := io.Copy(io.Discard, p.r)
			got <- err
			return
		}
		p.Write(make([]byte, size))
		<-proceed // the proxy has taken all
		p.reset()
	})
	f := serve(t, m, "/", []string{o.addr}, nil)
	upgrade := func(path string) *server.Client {
		c := f.Dial()
		c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 101 {
			t.Fatal(std, err)
		}
		return c
	}
	c := upgrade("/upstream")
	if _, err := io.ReadFull(c.R, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	proceed <- true
	if n, err := io.Copy(io.Discard, c.R); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an upstream that is reset: %d bytes, %v", n, err)
	}
	c.Close()

	c = upgrade("/client")
	c.Send("half of it")
	f.Settle()
	c.Reset()
	if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a client that is reset: %v", err)
	}
	wait.Until(t, "the end", func() bool { return o.open.Load() == 0 })
}
