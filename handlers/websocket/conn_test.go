package websocket_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/must"
)

// gorilla connects with gorilla's client.
func dialGorilla(s *site, compress bool) *gorilla.Conn {
	s.T.Helper()
	d := gorilla.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		EnableCompression: compress}
	scheme := "ws"
	if s.Mode.TLS {
		scheme = "wss"
	}
	c, resp, err := d.Dial(scheme+"://"+s.Addr+"/", nil)
	if err != nil {
		s.T.Fatal(err, resp)
	}
	s.T.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	return c
}

// TestEcho: messages of all sizes, and the close handshake.
func TestEcho(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		for _, compress := range []bool{false, true} {
			s := start(t, m, echo(&websocket.Upgrader{Compression: compress, ReadLimit: 1 << 20}))
			c := dialGorilla(s, compress)
			for _, size := range []int{0, 1, 125, 126, 4090, 4096, 5000, 65535, 65536, 300000} {
				for _, kind := range []int{gorilla.TextMessage, gorilla.BinaryMessage} {
					want := strings.Repeat("m", size)
					sent := make(chan error, 1)
					go func() { sent <- c.WriteMessage(kind, []byte(want)) }()
					k, got, err := c.ReadMessage()
					if err != nil || k != kind || string(got) != want {
						t.Fatalf("message of %d bytes: %d bytes, %v", size, len(got), err)
					}
					must.Do(t, <-sent)
				}
			}
			_ = c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(4321, "done"))
			if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, 4321) {
				t.Errorf("the end: %v", err)
			}
		}
	})
}

// TestPrepared: one message for all, each in the form that its connection takes.
func TestPrepared(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{Compression: true, Subprotocols: []string{"p"}}
		long := strings.Repeat("a message for all ", 1000)
		message := must.Get(websocket.Prepare(websocket.Text, []byte(long)))(t)
		s := start(t, m, choosing(u, func(req *conn.Request) talk {
			want := req.Header().Get("Sec-WebSocket-Protocol")
			return talk{open: func(c *websocket.Conn) {
				if c.Subprotocol() != want {
					t.Errorf("subprotocol %q", c.Subprotocol())
				}
				if err := c.WritePrepared(message); err != nil {
					t.Error(err)
				}
				if _, _, err := c.ReadMessage(); !isCode(err, 1000) {
					t.Error(err)
				}
			}}
		}))
		for range 2 {
			for _, fields := range []string{"", offered, "Sec-WebSocket-Protocol: p\r\n"} {
				c := upgrade(s, fields)
				f, err := c.read()
				if err != nil || f.first == 0xc1 != (fields == offered) ||
					len(f.payload) < len(long) != (fields == offered) {
					t.Errorf("%q: %x, %d bytes, %v", fields, f.first, len(f.payload), err)
				}
				c.Send(bye)
				c.closed(1000)
			}
		}
	})
}
