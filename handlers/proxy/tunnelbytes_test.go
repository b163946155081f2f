package proxy_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// moved is an access log of the bytes of tunnels.
type moved chan [2]int64

func (m moved) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	if e.Hijacked {
		m <- [2]int64{e.Bytes, e.Received}
	}
	return true
}

func (moved) HasRoom(*loop.Loop, conn.Share) bool { return true }

// TestTunnelBytes: the access log has the bytes of a tunnel.
func TestTunnelBytes(t *testing.T) {
	o := start(t, func(p *originConn) {
		p.head()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly")
		b := make([]byte, 1000)
		if _, err := io.ReadFull(p.r, b); err == nil {
			p.say("%s", strings.Repeat("y", 300_000))
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(*proxy.Settings) {})
	log := make(moved, 1)
	cfg := conn.Config{Handler: f.handler, AccessLog: log}
	f.Configure(cfg)
	c := f.Dial()
	head := "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
	c.Send(head + strings.Repeat("x", 1000))
	if _, err := io.Copy(io.Discard, c.R); err != nil {
		t.Error(err)
	}
	c.Close()
	if got := <-log; got[0] != 300_005 || got[1] != int64(len(head))+1000 {
		t.Errorf("%d bytes sent, want 300,005; %d received, want %d", got[0], got[1], len(head)+1000)
	}
}
