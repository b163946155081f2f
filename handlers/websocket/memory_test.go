package websocket_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/pubsub"
)

// TestServeMemory: what an idle connection takes that is subscribed, in a room of ten, after a
// message.
func TestServeMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	modes.Run(t, func(t *testing.T, m mode) {
		const many, before = 1000, 50
		most := int64(640)
		if m.TLS {
			most = 5 << 10
		}
		hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
		var u websocket.Upgrader
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			if n%10 == 0 {
				room = hub.Topic(string(rune(n)))
			}
			n++
			return u.Serve(req, resp, counter{room, nil})
		})
		per := s.IdleBytes(before, many, 0, func(c io.ReadWriter) {
			must.Get(io.WriteString(c, handshake+"\r\n"+frame(0x81, "hello")))(t)
			for got, b := "", make([]byte, 500); len(got) < 7 || got[len(got)-7:] != "\x81\x05hello"; {
				got += string(b[:must.Get(c.Read(b))(t)])
			}
		})
		t.Logf("%d bytes", per)
		if per > most {
			t.Errorf("an idle connection takes %d bytes, want %d at most", per, most)
		}
	}, direct, overTLS)
}
