package reverseproxy_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
)

// TestHeldByWindow: an answer that its client's window does not take holds 32 KiB at most, with the
// stack of its thread, whatever its length and its pieces. The client gets all of it when it opens
// the window. Other tests do not run meanwhile, as this one looks at the memory of the process.
func TestHeldByWindow(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "it looks at the memory of the process")
	for _, size := range []int{36_000, 600_000} {
		for _, piece := range []int{1_000, 20_000} {
			for _, window := range []int{0, 1_000, 15_000} {
				t.Run(fmt.Sprint(size, "/", piece, "/", window), func(t *testing.T) {
					heldByWindow(t, size, make([]byte, piece), window)
				})
			}
		}
	}
}

func heldByWindow(t *testing.T, size int, piece []byte, window int) {
	s := server.Start(t, modes.HTTP2,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			var f reverseproxy.Flow
			defer f.Drop()
			f.Begin(req, w, 1<<20, slog.Default(), false)
			for left := size; left > 0; left -= len(piece) {
				if err := f.Write(piece[:min(len(piece), left)]); err != nil {
					return 500
				}
			}
			_ = f.Drain(false)
			return 200
		}})
	if n := s.StalledBytes("/", window, size, nil); n > 32<<10 {
		t.Errorf("%d bytes for a stream", n)
	} else {
		t.Log(n)
	}
	if strings.Contains(s.Log.String(), "level=ERROR") {
		t.Error(s.Log.String())
	}
}
