package websocket_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/server"
)

// FuzzClient sends whatever comes to its mind behind a good handshake, in two pieces, and nothing
// more. The server has to come to an end, with frames that are well-formed, a close as the last of
// them, if it sends one, and the messages that it sends back are UTF-8.
func FuzzClient(f *testing.F) {
	for _, r := range rows {
		if len(r.raw) < 1000 {
			f.Add([]byte(r.raw), uint16(3), false)
		}
	}
	for _, r := range compressed {
		if len(r.raw) < 1000 {
			f.Add([]byte(r.raw), uint16(9), true)
		}
	}
	s := start(f, direct, echo(&websocket.Upgrader{Compression: true, ReadLimit: maxMessage}))
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16, deflate bool) {
		nc, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := &client{server.NewClient(t, nc)}
		fields := ""
		if deflate {
			fields = offered
		}
		c.Send(handshake + fields + "\r\n")
		c.answered()
		at := min(int(cut), len(raw))
		for _, p := range [][]byte{raw[:at], raw[at:]} {
			if _, err := c.Write(p); err != nil {
				break
			}
			loops.Settle(t, s.All...)
		}
		_ = nc.(*net.TCPConn).CloseWrite()
		ended := false
		for {
			m, err := c.next()
			if err != nil {
				if err != io.EOF && !strings.Contains(err.Error(), "connection reset") ||
					errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%x: %v", raw, err)
				}
				break
			}
			switch {
			case ended:
				t.Fatalf("%x: %q after the close", raw, m)
			case m.first == 0x88 && len(m.payload) != 1 && len(m.payload) <= 125:
				ended = true
			case m.first == 0x8a && len(m.payload) <= 125, m.first == 0x82, m.first == 0x81 &&
				utf8.ValidString(m.payload):
			default:
				t.Fatalf("%x: got %x, %q", raw, m.first, m.payload)
			}
		}
	})
	s.Idle()
}
