package websocket_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/handlers/websocket"
)

// gorilla connects with gorilla's client.
func (s *site) gorilla(compress bool) *gorilla.Conn {
	s.t.Helper()
	d := gorilla.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, EnableCompression: compress}
	scheme := "ws"
	if s.m.tls {
		scheme = "wss"
	}
	c, resp, err := d.Dial(scheme+"://"+s.addr+"/", nil)
	if err != nil {
		s.t.Fatal(err, resp)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	return c
}

// TestEcho: messages of all sizes, and the close handshake.
func TestEcho(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for _, compress := range []bool{false, true} {
			s := start(t, m, echo(&websocket.Upgrader{Compression: compress}))
			c := s.gorilla(compress)
			for _, size := range []int{0, 1, 125, 126, 4090, 4096, 5000, 65535, 65536, 300000} {
				for _, kind := range []int{gorilla.TextMessage, gorilla.BinaryMessage} {
					want := strings.Repeat("m", size)
					sent := make(chan error, 1)
					go func() { sent <- c.WriteMessage(kind, []byte(want)) }()
					k, got, err := c.ReadMessage()
					if err != nil || k != kind || string(got) != want {
						t.Fatalf("message of %d bytes: %d bytes, %v", size, len(got), err)
					}
					if err := <-sent; err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(4321, "done"))
			if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, 4321) {
				t.Errorf("the end: %v", err)
			}
		}
	})
}
