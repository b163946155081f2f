package sse_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// TestServeMemoryHTTP2 is TestServeMemory over HTTP/2.
func TestServeMemoryHTTP2(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	const most = 900
	hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
	h := func(req *conn.Request, resp *conn.Response) int {
		if n%10 == 0 {
			room = hub.Topic(string(rune(n)))
		}
		n++
		return sse.Serve(req, resp, quiet{room})
	}
	s := server.Start(t, modes.HTTP2, conn.Config{Handler: h})
	get := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "x"}
	per := s.IdleStreamBytes(get, "", "data: hello\n\n")
	t.Logf("%d bytes", per)
	if per > most {
		t.Errorf("an idle stream takes %d bytes, want %d at most", per, most)
	}
}
