package conn_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestSmallAnswersUntaken: a client that asks for small things one behind the other and takes none gets
// all of them when it does, whole and in order; each was put off to the end of a turn, and for the last
// one the kernel had no room.
func TestSmallAnswersUntaken(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		_, c, asked := smallAnswers(t, m, wait.Patience)
		for i := range asked {
			if a := c.Answer("GET"); a.Text != numbered(i) {
				t.Fatalf("answer %d of %d: %.20q...", i, asked, a.Text)
			}
		}
	}, plain, direct, overTLS)
}

// TestSmallAnswersNeverTaken: such a client has write_timeout, and then the connection ends.
func TestSmallAnswersNeverTaken(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s, _, _ := smallAnswers(t, m, 100*time.Millisecond)
		wait.Until(t, "the end of the connection", func() bool { return s.Active() == 0 })
	}, plain, direct, overTLS)
}

func numbered(n int) string { return strings.Repeat(strconv.Itoa(n)+" ", 700) }

// smallAnswers asks a server for numbered texts, each when the one before was answered, until there is
// no room for more, and takes none.
func smallAnswers(t *testing.T, m mode, limit time.Duration) (s *site, c *server.Client, asked int) {
	var answered atomic.Int32
	s = start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: limit},
		Handler: func(req *conn.Request, w *conn.Response) int {
			n, _ := strconv.Atoi(req.Path()[1:])
			answered.Add(1)
			return w.Text(200, numbered(n))
		}})
	c = s.DialSmall()
	for full := false; !full; asked++ {
		send(t, c, "GET /"+strconv.Itoa(asked)+" HTTP/1.1\r\nHost: a\r\n\r\n")
		s.Settled("an answer", func(l *loop.Loop) bool {
			full = l.Stats().Yields[coro.WantWrite] > 0
			return full || int(answered.Load()) == asked+1
		})
	}
	return s, c, asked
}
