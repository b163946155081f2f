package conn_test

import (
	"io"
	"net/http"
	"os"
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
	"golang.org/x/sys/unix"
)

// TestSmallAnswersUntaken: a client that asks for small things one behind the other and takes none
// gets all of them when it does, whole and in order; each was put off to the end of a turn, and for
// the last one the kernel had no room.
func TestSmallAnswersUntaken(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		_, c, asked := smallAnswers(t, m, wait.Patience, toWait)
		numberedAnswers(t, c, asked)
	}, plain, direct, overTLS)
}

// TestSmallAnswersNeverTaken: such a client has write_timeout, and then the connection ends; if it
// asks for nothing more, behind keepalive_timeout.
func TestSmallAnswersNeverTaken(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for name, full := range map[string]func(*loop.Loop) bool{"waiting": toWait, "idle": owing} {
			if name == "idle" && m.TLS {
				continue // nothing is put off
			}
			t.Run(name, func(t *testing.T) {
				s, _, _ := smallAnswers(t, m, wait.Patience, full)
				wait.Until(t, "the end of the connection", func() bool {
					s.Skip(wait.Patience) // once more if the client's kernel has taken something meanwhile
					return s.Active() == 0
				})
			})
		}
	}, plain, direct, overTLS)
}

// TestSmallAnswersBeforeOthers: whatever comes behind an answer for which there was no room, it
// does not overtake it: one of each kind of writing.
func TestSmallAnswersBeforeOthers(t *testing.T) {
	for _, kind := range []string{"text", "file", "http", "duplex", "hijack", "close"} {
		t.Run(kind, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				_, c, asked := smallAnswers(t, m, wait.Patience, owing)
				send(t, c, "GET /"+kind+" HTTP/1.1\r\nHost: a\r\n\r\n")
				numberedAnswers(t, c, asked)
				if a := c.Answer("GET"); a.Text != long {
					t.Errorf("%d bytes: %.40q", len(a.Text), a.Text)
				}
			}, plain, direct)
		})
	}
}

// TestSmallAnswersStop: a stop waits for a client that still takes its answers, also one that it
// has found idle with an answer for which there was no room.
func TestSmallAnswersStop(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for name, full := range map[string]func(*loop.Loop) bool{"waiting": toWait, "idle": owing} {
			if name == "idle" && m.TLS {
				continue // nothing is put off
			}
			t.Run(name, func(t *testing.T) {
				s, c, asked := smallAnswers(t, m, wait.Patience, full)
				s.On(func(l *loop.Loop) { l.Stop(wait.Patience) })
				numberedAnswers(t, c, asked)
				c.Ends()
			})
		}
	}, plain, direct, overTLS)
}

var long = strings.Repeat("long ", 4_000)

func numbered(n int) string { return strings.Repeat(strconv.Itoa(n)+" ", 700) }

// numberedAnswers reads the first n answers.
func numberedAnswers(t *testing.T, c *server.Client, n int) {
	t.Helper()
	for i := range n {
		if a := c.Answer("GET"); a.Text != numbered(i) {
			t.Fatalf("answer %d of %d: %.20q...", i, n, a.Text)
		}
	}
}

// toWait reports whether a thread waits for room, and owing whether there was none for what was put
// off.
func toWait(l *loop.Loop) bool { return l.Stats().Yields[coro.WantWrite] > 0 }
func owing(l *loop.Loop) bool  { return l.Stats().Remainders > 0 }

// smallAnswers asks a server for numbered texts, each when the one before was answered, until it is
// full, and takes none.
func smallAnswers(
	t *testing.T, m mode, limit time.Duration, full func(*loop.Loop) bool,
) (s *site, c *server.Client, asked int) {
	var answered atomic.Int32
	s = start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: limit, KeepAliveTimeout: limit},
		Handler: func(req *conn.Request, w *conn.Response) int {
			n, err := strconv.Atoi(req.Path()[1:])
			if err != nil {
				return longAnswer(req, w)
			}
			_ = unix.SetsockoptInt(req.Thread.FD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10)
			answered.Add(1)
			return w.Text(200, numbered(n))
		}})
	s.On(func(l *loop.Loop) { l.Layer().PutOffAlways() })
	c = s.DialSmall()
	for enough := false; !enough; asked++ {
		send(t, c, "GET /"+strconv.Itoa(asked)+" HTTP/1.1\r\nHost: a\r\n\r\n")
		s.Settled("an answer", func(l *loop.Loop) bool {
			enough = full(l)
			return enough || int(answered.Load()) == asked+1
		})
	}
	return s, c, asked
}

// longAnswer answers with a long text, in the way that the path says.
func longAnswer(req *conn.Request, w *conn.Response) int {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"
	switch req.Path() {
	case "/close":
		w.Header().Set("Connection", "close")
	case "/file":
		fd, err := unix.MemfdCreate("long", unix.MFD_CLOEXEC)
		if err != nil {
			return 500
		}
		f := os.NewFile(uintptr(fd), "long")
		_, _ = f.WriteString(long)
		w.SetBodyFile(f, 0, int64(len(long)))
		return 200
	case "/http":
		return conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 10 {
				_, _ = io.WriteString(w, long[:len(long)/10])
			}
		}))(req, w)
	case "/duplex":
		d := req.Layer().Duplex()
		w.WriteString(long)
		_ = d.End()
		return 200
	case "/hijack":
		c, _, err := w.Hijack()
		if err == nil {
			_, _ = io.WriteString(c, head+long)
			_ = c.Close()
		}
		return 200
	}
	return w.Text(200, long)
}
