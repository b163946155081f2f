package cache_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestIgnoredAbort: with ignore_client_abort, an application comes to its end though its client has
// left, and nobody else waits, whether the answer is one that is kept or not.
func TestIgnoredAbort(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		// "": no head before the client leaves
		for _, control := range []string{"", "no-store", "max-age=100"} {
			for _, ignore := range []bool{true, false} {
				begin, release := make(chan struct{}), make(chan struct{})
				gone, ended := make(chan struct{}), make(chan struct{})
				s := front(t, m, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
					stop := context.AfterFunc(r.Context(), func() { close(gone) })
					if control != "" {
						w.Header().Set("Cache-Control", control)
						_, _ = io.WriteString(w, strings.Repeat("a", half))
						w.(http.Flusher).Flush()
					}
					close(begin)
					<-release
					_, _ = io.WriteString(w, strings.Repeat("b", half))
					if stop() {
						close(ended)
					}
				}, func(s *proxy.Settings) { s.IgnoreClientAbort = ignore })
				c := s.Dial()
				c.Send(ask)
				<-begin
				if control != "" {
					_, _ = c.R.ReadByte()
				}
				s.Settle()
				c.Reset()
				s.Settle()
				if !ignore {
					select {
					case <-gone:
					case <-time.After(wait.Patience):
						t.Errorf("%q: it goes on for nobody", control)
					}
				}
				close(release)
				if ignore {
					select {
					case <-ended:
					case <-gone:
						t.Errorf("%q: the application was left", control)
					}
				}
				wait.Until(t, "the end", func() bool { return s.stats().Filling == 0 })
			}
		}
	}, modes.Direct, modes.Several)
}
