package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestTunnelResets: a reset is passed on, in both directions, behind all that was said before: who
// has lost the other must not take that for an orderly end.
func TestTunnelResets(t *testing.T) { modes.Run(t, testTunnelResets, modes.Direct, modes.OverTLS) }

// TestTunnelLateBytes: a client gets all that an upstream has said before it has closed in order,
// also if the client has sent it something since, which draws a reset.
func TestTunnelLateBytes(t *testing.T) {
	modes.Run(t, testTunnelLateBytes, modes.Direct, modes.OverTLS)
}

func testTunnelLateBytes(t *testing.T, m modes.Mode) {
	said := modes.Noise(128 << 10) // more than the client's kernel takes
	o := start(t, changes(func(p *originConn) {
		p.Write(said)
		for p.unsent() > 0 { // else its kernel drops them at the reset
			time.Sleep(time.Millisecond)
		}
	}))
	f := serve(t, m, "/", []string{o.addr}, nil)
	for _, late := range []string{"", "a", "ab"} {
		c := f.DialBuffer(server.SlowReader)
		c.Send(asksUpgrade)
		if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 101 {
			t.Fatal(std, err)
		}
		wait.Until(t, "the upstream has closed", func() bool { return o.open.Load() == 0 })
		f.Settle()
		for _, b := range late {
			c.Send(string(b))
			f.Settle()
		}
		c.CloseWrite()
		f.Settle()
		if got, err := io.ReadAll(c.R); err != nil || !bytes.Equal(got, said) {
			t.Errorf("behind %q: %d bytes, %v", late, len(got), err)
		}
		c.Close()
		f.Idle()
	}
}

func testTunnelResets(t *testing.T, m modes.Mode) {
	const size = 4 << 20
	got := make(chan error, 1)
	proceed := make(chan bool)
	o := start(t, func(p *originConn) {
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
	must.Get(io.ReadFull(c.R, make([]byte, size)))(t)
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

// unsent returns how many bytes the kernel holds for the proxy.
func (p *originConn) unsent() (n int) {
	if raw, err := p.Conn.(syscall.Conn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = sysio.Unsent(int(fd)) })
	}
	return n
}
