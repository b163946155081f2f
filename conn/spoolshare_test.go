package conn_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestMaxSpoolIsShared: a client that holds many slow uploads leaves room for others.
func TestMaxSpoolIsShared(t *testing.T) {
	defer conn.SetLingerTime(time.Minute, time.Minute)()
	run(t, func(t *testing.T, m mode) {
		const limit, each, uploads = 1_000_000, 10_000, 103
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxSpool: limit}, Handler: func(
			req *conn.Request, resp *conn.Response,
		) int {
			body, n, err := req.Layer().Spool(1000)
			if err != nil {
				return 0
			}
			k, err := io.Copy(io.Discard, body)
			fmt.Fprint(resp, n, k, err)
			return 200
		}})
		post := func(n int) string {
			return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n) +
				strings.Repeat("x", n)
		}
		for range uploads {
			raw := post(each)
			s.Dial().Send(raw[:len(raw)-1])
		}
		// Those that get 503 linger. On a slow machine none does: the first uploads give way then.
		s.Settled("all have come", func(*loop.Loop) bool {
			return s.Server.Spooled() >= limit/2-each && s.Active() == uploads
		})
		s.Settle()
		if n := s.Server.Spooled(); n > limit/2 {
			t.Errorf("one client holds %d bytes of %d", n, limit)
		}
		other := s.DialBy(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}})
		if a := other.Do("POST", post(20_000)); a.StatusCode != 200 {
			t.Errorf("another client: %v", a.Status)
		}
	}, http1...)
}
