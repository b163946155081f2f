package websocket_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/pubsub"
)

// TestServeMemoryHTTP2 is TestServeMemory over HTTP/2.
func TestServeMemoryHTTP2(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	const most = 900
	hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
	var u websocket.Upgrader
	s := start(t, modes.HTTP2, func(req *conn.Request, resp *conn.Response) int {
		if n%10 == 0 {
			room = hub.Topic(string(rune(n)))
		}
		n++
		return u.Serve(req, resp, counter{room, nil})
	})
	per := s.IdleStreamBytes(
		[]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http",
			":path", "/", ":authority", "example.org", "sec-websocket-version", "13"},
		frame(0x81, "hello"), "\x81\x05hello")
	t.Logf("%d bytes", per)
	if per > most {
		t.Errorf("an idle connection takes %d bytes, want %d at most", per, most)
	}
}
