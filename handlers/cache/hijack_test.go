package cache_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHijackBehindHead: a handler that takes the connection over behind a head has the cache let go
// of the answer once, whether it would have been kept or not.
func TestHijackBehindHead(t *testing.T) {
	for _, control := range []string{"no-store", "max-age=100"} {
		s := startAs(t, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Cache-Control", control)
			w.Header().Set("Content-Length", "4")
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
			c, _, err := w.Hijack()
			if err != nil {
				t.Error(err)
				return 0
			}
			_, _ = io.WriteString(c, "text")
			return 0
		}, true)
		c := s.Dial()
		c.Send(ask)
		if got := server.Rest(t, c.R); !strings.HasSuffix(got, "\r\n\r\ntext") {
			t.Errorf("%s: %q", control, got)
		}
		wait.Until(t, "the end", func() bool { return s.stats().Filling == 0 })
		if n := s.stats().Fills; n > 0 {
			t.Errorf("%s: it is kept", control)
		}
	}
}
