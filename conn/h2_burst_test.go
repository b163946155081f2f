package conn_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2Burst: the requests of one write all begin, whether or not the handlers of the first
// ones return, and what comes behind them is read. Nobody waits for anything but the last request.
func TestHTTP2Burst(t *testing.T) {
	t.Parallel()
	const burst = 100
	for _, waits := range []bool{false, true} {
		all, n := new(loop.Promise[int]), 0 // of one loop
		s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if n++; n == burst {
				all.Resolve(0)
			}
			if waits {
				if _, err := req.AwaitAny(-1, all); err != nil {
					t.Error(err)
				}
			}
			return 204
		}})
		r := dial2(t, s)
		for i := range burst {
			r.get(uint32(2*i + 1))
		}
		r.frame(http2.Ping, 0, 0, "12345678").flush()
		pings, answers := 0, map[uint32]bool{}
		for len(answers) < burst || pings == 0 {
			h, _ := r.next()
			switch h.Type {
			case http2.Headers:
				answers[h.Stream] = true
			case http2.Ping:
				pings++
			case 255:
				t.Fatal(fmt.Sprint(len(answers), " answers, ", pings, " answers to a PING"))
			}
		}
		r.Close()
		s.Idle()
	}
}
