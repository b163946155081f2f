package conn_test

import (
	"os"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2PiecesBehindAWindow: streams that share the window of their connection wait for each
// other, not for the client, which takes all at once. What they read meanwhile does not go out in
// crumbs, each of which would cost a frame and a turn.
func TestHTTP2PiecesBehindAWindow(t *testing.T) {
	t.Parallel()
	const size, streams, step = 1 << 20, 16, 16 << 10
	path := t.TempDir() + "/f"
	must.Do(t, os.WriteFile(path, make([]byte, size), 0o600))
	for name, h := range map[string]conn.Handler{
		"file": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyFile(must.Get(os.Open(path))(t), 0, size)
			return 200
		},
		"reader": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(must.Get(os.Open(path))(t), size)
			return 200
		},
	} {
		s := start(t, modes.HTTP2, conn.Config{Handler: h})
		r := dial2(t, s)
		r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(size))
		for i := range streams {
			r.get(uint32(2*i + 1))
		}
		r.flush()
		frames, crumbs, got, owed := 0, 0, 0, 0
		for got < streams*size {
			h, p := r.next()
			switch h.Type {
			case http2.Data:
				frames++
				if len(p) < 1<<10 {
					crumbs++
				}
				got += len(p)
				if owed += len(p); owed >= step {
					r.frame(http2.WindowUpdate, 0, 0, uint32Of(uint32(owed))).flush()
					owed = 0
				}
			case http2.RSTStream, http2.GoAway, 255:
				t.Fatalf("%s: frame %d after %d bytes", name, h.Type, got)
			}
		}
		if crumbs > frames/2 {
			t.Errorf("%s: %d frames of %d have less than 1 KiB", name, crumbs, frames)
		}
	}
}
