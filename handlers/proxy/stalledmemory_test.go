package proxy_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStalledStreams: an answer whose client takes no more of it holds a little memory, with the
// stack of its thread and all else that it needs. Other tests do not run meanwhile, as this one
// looks at the memory of the process.
func TestStalledStreams(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "it looks at the memory of the process")
	const size, most = 600_000, 32 << 10
	body := strings.Repeat("a", size)
	var given atomic.Int64 // answers that the proxy has as a whole
	o := start(t, func(p *originConn) {
		if p.request() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, body)
			if p.request() == nil {
				given.Add(1)
			}
		}
	})
	for _, window := range []int{0, 10_000, 65_535} {
		t.Run(strconv.Itoa(window), func(t *testing.T) {
			given.Store(0)
			f := serve(t, modes.HTTP2, "/", []string{o.addr}, func(s *proxy.Settings) { s.MaxIdle = 0 })
			each := f.StalledBytes("/", window, size, func(n int) {
				wait.Until(t, "the answers are spooled", func() bool { return given.Load() == int64(n) })
			})
			t.Logf("%d bytes each", each)
			if each > most {
				t.Errorf("%d bytes for a stream, want at most %d", each, most)
			}
			if s := f.log.String(); strings.Contains(s, "level=ERROR") {
				t.Error(s)
			}
		})
	}
}
