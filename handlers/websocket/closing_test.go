package websocket_test

import (
	"io"
	"net"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// leaving is a handler that closes at once, and so drops all that the client sends.
func leaving() conn.Handler {
	return having(new(websocket.Upgrader), func(c *websocket.Conn) {
		_ = c.Close(websocket.NormalClosure, "")
	})
}

// dropped sends bytes, in two pieces, to a server that is closing, and then the end of the
// connection. The server sends nothing but its close frame.
func dropped(t *testing.T, s *site, raw []byte, cut int) {
	t.Helper()
	nc := must.Dial(t, "tcp", s.Addr)
	c := &client{server.NewClient(t, nc)}
	c.Send(handshake + "\r\n")
	c.answered()
	for _, p := range [][]byte{raw[:cut], raw[cut:]} {
		if _, err := c.Write(p); err != nil {
			break
		}
		loops.Settle(t, s.All...)
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	if m, err := c.next(); err != nil || m.first != 0x88 || m.payload != "\x03\xe8" {
		t.Fatalf("%x: got %+v, %v", raw, m, err)
	}
	if m, err := c.next(); err == nil {
		t.Fatalf("%x: %+v after the close", raw, m)
	} else if err == io.ErrUnexpectedEOF {
		t.Fatalf("%x: %v", raw, err)
	}
}

// A frame may be as long as its header can say; what a peer sends while the server waits for its
// close is dropped, also if it is that.
func TestLongestFrameAtClose(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, leaving())
		longest := "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffaaaa"
		for _, raw := range []string{longest, longest + "the beginning of its payload",
			"\x82\x81aaaab" + longest + "x"} {
			for _, cut := range []int{0, len(raw) - 1} {
				dropped(t, s, []byte(raw), cut)
			}
		}
		s.Idle()
	}, direct, serving(direct))
}

// FuzzClosing: whatever comes between the server's close frame and the client's end is dropped.
func FuzzClosing(f *testing.F) {
	for _, r := range rows {
		if len(r.raw) < 1000 {
			f.Add([]byte(r.raw), uint16(3))
		}
	}
	f.Add([]byte("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffaaaabc"), uint16(15))
	s, served := start(f, direct, leaving()), start(f, serving(direct), leaving())
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		dropped(t, s, raw, min(int(cut), len(raw)))
		dropped(t, served, raw, min(int(cut), len(raw)))
	})
	s.Idle()
	served.Idle()
}
