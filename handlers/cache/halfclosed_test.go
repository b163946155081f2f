package cache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHalfClosed: a client that has ended its sending half gets a hit. It gets no answer, and
// certainly no 200, that nobody has made.
func TestHalfClosed(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		g := newGate("max-age=100")
		s := start(t, m, cache.Settings{}, g.serve)
		rest := func(c *server.Client) string {
			c.CloseWrite()
			_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
			return server.Rest(t, c.R)
		}
		leads, follows, late := s.Dial(), s.Dial(), s.Dial()
		leads.Send(ask)
		wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
		follows.Send(ask)
		late.Send(ask)
		s.Settle()
		if got := rest(follows); got != "" {
			t.Errorf("an answer that nobody has made: %.100q", got)
		}
		leads.CloseWrite() // it goes on, as another one waits
		s.Settle()
		g.head.Resolve("")
		g.rest.Resolve("")
		if text, err := (&client{late}).read(); err != nil || text != whole {
			t.Errorf("the one that waits: %d bytes, %v", len(text), err)
		}
		wait.Until(t, "the answer is kept", func() bool { return s.stats().Fills == 1 })
		hit := s.Dial()
		hit.Send(ask)
		got := rest(hit)
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, whole) {
			t.Errorf("a hit: %.100q", got)
		}
	}, modes.Direct, modes.Plain)
}
