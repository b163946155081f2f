package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
)

// TestStalledBodies: a body whose client takes no more of it holds a little memory, with the stack
// of its thread, from whatever source it comes. Other tests do not run meanwhile, as this one looks
// at the memory of the process.
func TestStalledBodies(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "it looks at the memory of the process")
	const size = 600_000
	content := bytes.Repeat([]byte("a"), size)
	name := filepath.Join(t.TempDir(), "file")
	must.Write(t, name, string(content))
	bodies := map[string]struct {
		h    conn.Handler
		most int64
	}{
		"reader": {func(_ *conn.Request, w *conn.Response) int {
			// which has no other way to be read
			w.SetBodyReader(io.MultiReader(bytes.NewReader(content)), -1)
			return 200
		}, 16 << 10},
		"bytes": {func(_ *conn.Request, w *conn.Response) int { w.SetBody(content); return 200 },
			16 << 10},
		"file": {func(_ *conn.Request, w *conn.Response) int {
			f, err := os.Open(name)
			if err != nil {
				return 500
			}
			w.SetBodyFile(f, 0, size)
			return 200
		}, 16 << 10},
		"http.Handler": {conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for p := content; len(p) > 0; p = p[min(len(p), 4_000):] {
				_, _ = w.Write(p[:min(len(p), 4_000)])
			}
		})), 48 << 10},
	}
	for kind, body := range bodies {
		for _, window := range []int{0, 1_000, 65_535} {
			t.Run(fmt.Sprint(kind, "/", window), func(t *testing.T) {
				s := server.Start(t, modes.HTTP2, conn.Config{Handler: body.h})
				n := s.StalledBytes("/", window, size, nil)
				t.Logf("%d bytes each", n)
				if n > body.most {
					t.Errorf("%d bytes for a stream, want at most %d", n, body.most)
				}
			})
		}
	}
}
