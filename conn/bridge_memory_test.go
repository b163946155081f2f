package conn_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/race"
)

// TestBridgeIdleMemory: a connection that is idle after a request holds its record alone, whatever
// has answered the request.
func TestBridgeIdleMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	const most = 260 // bytes
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		io.WriteString(w, "hello")
		if r.URL.Path == "/flush" {
			w.(http.Flusher).Flush()
		}
	})
	for name, h := range map[string]conn.Handler{"native": hello, "HTTP": conn.HTTP(std),
		"HTTPOnLoop": conn.HTTPOnLoop(std)} {
		for what, raw := range map[string]string{"GET": get,
			"POST":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345",
			"flushed": "GET /flush HTTP/1.1\r\nHost: a\r\n\r\n"} {
			s := start(t, direct, conn.Config{Handler: h, Limits: conn.Limits{KeepAliveTimeout: time.Hour}})
			n := s.IdleBytes(200, 2000, time.Minute, func(c io.ReadWriter) {
				send(t, c.(io.Writer), raw)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			})
			t.Logf("%s, %s: %d bytes", name, what, n)
			if n > most {
				t.Errorf("%s, %s: %d bytes for an idle connection, want %d at most", name, what, n, most)
			}
			s.Stop(time.Second)
		}
	}
}
