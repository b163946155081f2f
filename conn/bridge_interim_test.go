package conn_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestBridgeInterimResponses: those that a client does not read have their handler wait; all arrive
// when it does.
func TestBridgeInterimResponses(t *testing.T) {
	t.Parallel()
	const total = 2000
	field := strings.Repeat("x", 8<<10) // in all more than the kernel takes
	run(t, func(t *testing.T, m mode) {
		var sent atomic.Int64
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Link", field)
			for range total {
				w.WriteHeader(http.StatusEarlyHints)
				sent.Add(1)
			}
			w.Header().Del("Link")
			io.WriteString(w, "done")
		}))})
		c := s.Dial()
		send(t, c, get)
		wait.Until(t, "the first one", func() bool { return sent.Load() > 0 })
		for last := int64(-1); last != sent.Load(); {
			last = sent.Load()
			stuck(s)
		}
		if n := sent.Load(); n == 0 || n == total {
			t.Errorf("%d sent to a client that does not read", n)
		}
		for i := range total {
			if a := c.Answer("GET"); a.StatusCode != http.StatusEarlyHints {
				t.Fatalf("%d: %s", i, a.Status)
			}
		}
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "done" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	}, plain, overTLS)
}
