package conn_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestMaxRate: an answer takes its time, whatever way it goes, also for a client that has closed
// its sending half.
func TestMaxRate(t *testing.T) {
	t.Parallel()
	const rate = 400 << 10
	body := chacha(rate / 2)
	path := filepath.Join(t.TempDir(), "body")
	must.Do(t, os.WriteFile(path, body, 0o600))
	std := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
	ways := map[string]conn.Handler{
		"/given": func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 },
		"/file": func(_ *conn.Request, w *conn.Response) int {
			f, err := os.Open(path)
			if err != nil {
				return 500
			}
			w.SetBodyFile(f, 0, int64(len(body)))
			return 200
		},
		"/reader": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(bytes.NewReader(body), -1)
			return 200
		},
		"/written": func(_ *conn.Request, w *conn.Response) int {
			for b := body; len(b) > 0; b = b[min(len(b), 1000):] {
				w.Write(b[:min(len(b), 1000)])
			}
			return 200
		},
		"/bridge": std,
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.SetMaxRate(rate)
			return ways[req.Path()](req, w)
		}})
		var all sync.WaitGroup
		for path := range ways {
			c := s.Dial()
			all.Go(func() {
				began := time.Now()
				c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
				// The bridge's handler waits, and ends when the client has left.
				if path != "/bridge" {
					c.CloseWrite()
				}
				got := c.Answer("GET")
				// Half a second's bytes, but for the eighth and what may be made up for.
				if took := time.Since(began); took < 300*time.Millisecond {
					t.Errorf("%s: %v", path, took)
				}
				if got.Text != string(body) {
					t.Errorf("%s: %d bytes, %s", path, len(got.Text), got.Status)
				}
			})
		}
		all.Wait()
	})
}

// TestMaxRateOfOneAnswer: others are served meanwhile, and the next answer of the connection has no
// limit.
func TestMaxRateOfOneAnswer(t *testing.T) {
	const rate = 10 << 10
	long := make([]byte, 2*rate*int(wait.Patience.Seconds()))
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		switch req.Path() {
		case "/endless":
			w.SetMaxRate(rate)
			w.SetBody(long)
		case "/first":
			w.SetMaxRate(rate)
			w.WriteString("x")
		default:
			w.SetBody(long)
		}
		return 200
	}})
	slow := s.Dial()
	slow.Send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
	must.Get(io.ReadFull(slow.R, make([]byte, 10)))(t)
	c := s.Dial()
	for _, path := range []string{"/first", "/second"} {
		c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	slow.Close()
}
