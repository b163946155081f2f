package sse_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// TestServeMemory: what an idle stream takes that follows a topic, with nine others, after an
// event.
func TestServeMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const many, before = 1000, 50
		most := int64(640)
		if m.TLS {
			most = 5 << 10
		}
		hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if n%10 == 0 {
				room = hub.Topic(string(rune(n)))
			}
			n++
			return sse.Serve(req, resp, quiet{room})
		}})
		per := s.IdleBytes(before, many, 0, func(c io.ReadWriter) {
			must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			for got, b := "", make([]byte, 500); !strings.Contains(got, "data: hello\n\n"); {
				got += string(b[:must.Get(c.Read(b))(t)])
			}
		})
		t.Logf("%d bytes", per)
		if per > most {
			t.Errorf("an idle stream takes %d bytes, want %d at most", per, most)
		}
	}, modes.Direct, modes.OverTLS)
}
