package reverseproxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestRoomBeforeTheWait: a flow that was stuck does not wait for room that its client has made
// before the wait, while the thread did something else. A session of HTTP/2 sends by itself.
func TestRoomBeforeTheWait(t *testing.T) {
	const piece, pieces = 20_000, 10
	var taken atomic.Int64
	s := server.Start(t, modes.HTTP2,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			var f reverseproxy.Flow
			defer f.Drop()
			f.Begin(req, w, 1<<20, slog.Default(), true)
			var err error
			for n := 0; n < pieces && err == nil; n++ {
				before := taken.Load()
				err = f.Write(make([]byte, piece))
				if !f.HasHeld() {
					continue
				}
				for taken.Load() == before && err == nil { // the session sends meanwhile
					err = req.Thread.Sleep(time.Millisecond)
				}
				for f.HasHeld() && err == nil {
					if err = f.Await(wait.Patience, false); err == nil {
						err = f.WriteHeld(true)
					}
				}
			}
			if err != nil {
				t.Error(err)
			}
			_ = f.Drain(false)
			return 200
		}})
	c := s.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	std := must.Get(http.ReadResponse(c.R, nil))(t)
	buf := make([]byte, piece)
	for {
		n, err := std.Body.Read(buf)
		taken.Add(int64(n))
		if err == io.EOF {
			break
		}
		must.Do(t, err)
	}
	if n := taken.Load(); n != piece*pieces {
		t.Errorf("%d bytes", n)
	}
}
