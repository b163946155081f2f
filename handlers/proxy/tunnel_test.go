package proxy_test

import (
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

const asksUpgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// changes is a script that upgrades its connection first.
func changes(script func(p *originConn)) func(*originConn) {
	return func(p *originConn) {
		p.head()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		script(p)
	}
}

// TestTunnelInBulk: bytes that come in bulk arrive as they were sent, in both directions, also if
// one side reads nothing before it has written all; and then the ends of both.
func TestTunnelInBulk(t *testing.T) {
	there, back := modes.Noise(24<<20), modes.Noise(25 << 20)[1<<20:]
	// talk writes and reads, and returns the sum of what it has read.
	talk := func(c net.Conn, r io.Reader, data []byte, late bool) (sum [sha256.Size]byte) {
		written := make(chan bool)
		go func() {
			if _, err := c.Write(data); err != nil {
				t.Error(err)
			}
			c.(interface{ CloseWrite() error }).CloseWrite()
			close(written)
		}()
		if late {
			<-written
		}
		h := sha256.New()
		io.Copy(h, r)
		<-written
		h.Sum(sum[:0])
		return sum
	}
	for _, late := range []string{"none", "client", "upstream"} {
		for _, m := range []modes.Mode{modes.Direct, modes.OverTLS} {
			t.Run(late+" "+m.Name, func(t *testing.T) {
				arrived := make(chan [sha256.Size]byte, 1)
				o := start(t, changes(func(p *originConn) {
					arrived <- talk(p.Conn, p.r, back, late == "upstream")
				}))
				f := serve(t, m, "/", []string{o.addr}, nil)
				c := f.Dial()
				c.Send(asksUpgrade)
				if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 101 {
					t.Fatal(std, err)
				}
				if got := talk(c.Conn, c.R, there, late == "client"); got != sha256.Sum256(back) {
					t.Error("the client gets other bytes")
				}
				if got := <-arrived; got != sha256.Sum256(there) {
					t.Error("the upstream gets other bytes")
				}
				wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
			})
		}
	}
}

// TestTunnelEnds: nothing is wrong in the log after a tunnel, whichever side ends it.
func TestTunnelEnds(t *testing.T) {
	for _, first := range []string{"client", "upstream", "stop"} {
		t.Run(first, func(t *testing.T) {
			o := start(t, changes(func(p *originConn) {
				p.say("hello")
				if first != "upstream" {
					io.Copy(io.Discard, p.r)
				}
			}))
			f := serve(t, modes.Direct, "/", []string{o.addr}, nil)
			c := f.Dial()
			c.Send(asksUpgrade)
			if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 101 {
				t.Fatal(std, err)
			}
			if _, err := io.ReadFull(c.R, make([]byte, len("hello"))); err != nil {
				t.Error(err)
			}
			if first == "stop" {
				f.Stop(0)
			}
			if first == "upstream" {
				io.Copy(io.Discard, c.R)
			}
			c.Close()
			if first != "stop" {
				f.Idle()
			}
			if text := f.Log.String() + f.log.String(); text != "" {
				t.Error(text)
			}
		})
	}
}
