package conn_test

import (
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestSmallAnswersUntaken: a client that asks for small things one behind the other and takes none gets
// all of them when it does, whole and in order; each was put off to the end of a turn, and for the last
// one the kernel had no room.
func TestSmallAnswersUntaken(t *testing.T) {
	text := func(n int) string { return strings.Repeat(strconv.Itoa(n)+" ", 700) }
	run(t, func(t *testing.T, m mode) {
		var answered atomic.Int32
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: wait.Patience},
			Handler: func(req *conn.Request, w *conn.Response) int {
				n, _ := strconv.Atoi(req.Path()[1:])
				answered.Add(1)
				return w.Text(200, text(n))
			}})
		c := s.DialSmall()
		asked, full := 0, false
		for ; !full; asked++ {
			send(t, c, "GET /"+strconv.Itoa(asked)+" HTTP/1.1\r\nHost: a\r\n\r\n")
			s.Settled("an answer", func(l *loop.Loop) bool {
				full = l.Stats().Yields[coro.WantWrite] > 0
				return int(answered.Load()) == asked+1
			})
		}
		for i := range asked {
			if a := c.Answer("GET"); a.Text != text(i) {
				t.Fatalf("answer %d of %d: %.20q...", i, asked, a.Text)
			}
		}
	}, plain, direct, overTLS)
}

// TestSmallAnswersNeverTaken: such a client has write_timeout, and then the connection ends.
func TestSmallAnswersNeverTaken(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: 100 * time.Millisecond},
			Handler: func(_ *conn.Request, w *conn.Response) int { return w.Text(200, strings.Repeat("x", 3000)) }})
		c := s.DialSmall()
		for {
			if _, err := io.WriteString(c, get); err != nil {
				break
			}
		}
		s.Idle()
	}, plain, direct, overTLS)
}
