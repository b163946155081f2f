package conn_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2Untaken: a client that asks for heads and takes none of them is not read any more as
// soon as some of them wait for its socket, whatever it asks for. Once it takes them, all of its
// requests are answered.
func TestHTTP2Untaken(t *testing.T) {
	t.Parallel()
	const requests, size = 8000, 4 << 10 // 32 MB, far more than the kernel takes
	for name, first := range map[string]func(r *raw2, id uint32){
		"HEAD": func(r *raw2, id uint32) {
			r.head(id, http2.EndStream, ":method", "HEAD", ":scheme", "http", ":path", "/", ":authority",
				"a")
		},
		"204": func(r *raw2, id uint32) { r.get(id, "x-status", "204") },
		"pings": func(r *raw2, id uint32) {
			r.get(id, "x-status", "304").frame(http2.Ping, 0, 0, "12345678")
		},
		"uploads": func(r *raw2, id uint32) {
			r.post(id, "/", "x-status", "204").frame(http2.Data, http2.EndStream, id, "12345678")
		},
	} {
		var begun atomic.Int64
		s := start(t, modes.HTTP2, conn.Config{Limits: conn.Limits{WriteTimeout: time.Hour, MinRate: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				begun.Add(1)
				w.Header().Set("X-Long", strings.Repeat("x", size))
				if v := req.Header().Get("X-Status"); v != "" {
					return int(v[0]-'0')*100 + int(v[2]-'0')
				}
				return w.Text(200, "content")
			}})
		r := dial2(t, s)
		must.Do(t, r.Conn.(*net.TCPConn).SetReadBuffer(256<<10))
		for i := range uint32(requests) {
			first(r, 2*i+1)
		}
		sent := make(chan int)
		go func() { // it may have to wait for the server
			r.flush()
			sent <- 0
		}()
		s.Settled("something waits", func(l *loop.Loop) bool { return conn.Untaken(s.Server, l) > 0 })
		s.Skip(0)
		held := int64(0)
		s.On(func(l *loop.Loop) { held += conn.Untaken(s.Server, l) })
		if held > 1<<20 || begun.Load() == requests {
			t.Errorf("%s: %d bytes wait for the socket, behind %d requests", name, held, begun.Load())
		}
		for answered := 0; answered < requests; answered++ {
			if got := r.until(http2.Headers, http2.GoAway, http2.RSTStream); !strings.HasPrefix(got,
				"HEADERS ") {
				t.Fatalf("%s: %s behind %d answers", name, got, answered)
			}
		}
		<-sent
		r.Close()
		s.Idle()
	}
}
