package websocket_test

import (
	"net"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestPeerWindowsAreShared: when half of the room for windows of clients is taken, a single address
// cannot have the rest.
func TestPeerWindowsAreShared(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, PeerTakeover: true}))
		defer websocket.LeaveWindows(websocket.MaxShare + 1<<20)()
		connect := func(from string) (c *client, alone bool) {
			c = &client{s.DialBy(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}})}
			c.Send(handshake + offered + "\r\n")
			return c, strings.Contains(c.agreed(), "client_no_context_takeover")
		}
		const most = websocket.MaxShare >> 15
		var all []*client
		for i := range most + 2 {
			c, alone := connect("127.0.0.1")
			if alone != (i >= most) {
				t.Fatalf("connection %d: %v", i, alone)
			}
			all = append(all, c)
		}
		c, alone := connect("127.0.0.2")
		if alone {
			t.Error("another address has none")
		}
		for _, c := range append(all, c) {
			c.Close()
		}
		s.Idle()
		if n := websocket.Shares(); n > 0 {
			t.Errorf("%d addresses have a share after the end", n)
		}
	}, serving(direct), modes.HTTP2)
}
