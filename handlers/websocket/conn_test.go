package websocket_test

import (
	"crypto/tls"
	"net"
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
	run(t, func(t *testing.T, m mode) {
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

// TestGorilla: the connection as gorilla knows it keeps to the same rules.
func TestGorilla(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{Compression: true, MessageTimeout: 30 * time.Millisecond,
			ReadLimit: maxMessage}
		ends := make(chan error, 1)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			g := c.Gorilla()
			if req.Path() == "/deadline" {
				_ = g.SetReadDeadline(time.Now().Add(time.Millisecond))
			}
			for {
				kind, p, err := g.ReadMessage()
				if err == nil {
					err = g.WriteMessage(kind, p)
				}
				if err != nil {
					ends <- err
					return 0
				}
			}
		})
		c := upgrade(s, offered)
		c.Send(frame(0x89, "p"))
		c.expect(pong("p"))
		s.Settle()
		time.Sleep(60 * time.Millisecond) // a lone ping has no limit
		c.Send(frame(0x41, packed("Hello")[:3]) + frame(0x89, "q") +
			frame(0x80, packed("Hello")[3:]) + frame(0x82, "x") + bye)
		c.expect(pong("q"), text("Hello"), bin("x"))
		c.closed(1000)
		if got := code(t, ends); got != 1000 {
			t.Errorf("ended with %d", got)
		}
		c = upgrade(s)
		c.Send(frame(0x81, "x")[:7] + "\xc1")
		c.expect(text("x"))
		c.closed(1002)
		if got := code(t, ends); got != 1002 {
			t.Errorf("ended with %d", got)
		}
		c = &client{s.Dial()}
		c.Send(strings.Replace(handshake, "/", "/deadline", 1) + "\r\n")
		c.answered()
		if err, ok := (<-ends).(net.Error); !ok || !err.Timeout() {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestPrepared: one message for all, each in the form that its connection takes.
func TestPrepared(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{Compression: true, Subprotocols: []string{"p"}}
		long := strings.Repeat("a message for all ", 1000)
		message := must.Get(websocket.Prepare(websocket.Text, []byte(long)))(t)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			if c.Subprotocol() != req.Header().Get("Sec-WebSocket-Protocol") {
				t.Errorf("subprotocol %q", c.Subprotocol())
			}
			if err := c.WritePrepared(message); err != nil {
				t.Error(err)
			}
			_, _, err = c.ReadMessage()
			if !isCode(err, 1000) {
				t.Error(err)
			}
			return 0
		})
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
