package conn_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// silence is less than body_timeout, and two of them are more.
const silence = 20 * time.Second

// listening is a handler that reads the request's body and says a byte for each tick. It tells of
// the error of its reading.
func listening(mount mount, ticks <-chan bool, failed chan<- error) conn.Handler {
	return mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		over := make(chan bool)
		go func() {
			_, err := io.ReadAll(r.Body)
			failed <- err
			close(over)
		}()
		for {
			select {
			case <-ticks:
				_, _ = io.WriteString(w, "x")
				_ = rc.Flush()
			case <-over:
				return
			}
		}
	}))
}

// TestSilentListener: a client that says nothing more while it takes what it is told is not silent.
// When nobody says anything, body_timeout ends the request, and the log says so.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		ticks, failed := make(chan bool), make(chan error, 1)
		s := start(t, m, conn.Config{Handler: listening(conn.HTTP, ticks, failed)})
		c := s.Dial()
		defer c.Close()
		send(t, c, "POST /talk HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		answer := must.Get(http.ReadResponse(bufio.NewReader(c.Conn), nil))(t)
		for i := range 4 {
			s.Skip(silence)
			select {
			case ticks <- true:
			case err := <-failed:
				t.Fatalf("after %v: %v", time.Duration(i+1)*silence, err)
			}
			must.Get(io.ReadFull(answer.Body, make([]byte, 1)))(t)
		}
		s.Skip(silence)
		s.Skip(silence)
		if err := <-failed; !errors.Is(err, conn.ErrBodyTimeout) {
			t.Error(err)
		}
		if log := s.Log.String(); !strings.Contains(log, "key=body_timeout limit=30s") ||
			!strings.Contains(log, "target=/talk") {
			t.Error(log)
		}
	})
}

// TestPings: a client that sends keep-alive pings may be silent.
func TestPings(t *testing.T) {
	t.Parallel()
	ticks, failed := make(chan bool), make(chan error, 1)
	s := start(t, modes.HTTP2, conn.Config{Handler: listening(conn.HTTP, ticks, failed)})
	r := dial2(t, s)
	r.head(1, 0, ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a").flush()
	if got := r.until(http2.Headers); got != "HEADERS 1 200" {
		t.Fatal(got)
	}
	for range 4 {
		s.Skip(silence)
		r.frame(http2.Ping, 0, 0, "12345678").flush()
		if got := r.until(http2.Ping, http2.RSTStream); got != "frame 6 on 0" {
			t.Fatal(got, s.Log)
		}
	}
	ticks <- true
	if got := r.until(http2.Data, http2.RSTStream); got != "frame 0 on 1" {
		t.Fatal(got)
	}
	for range 4 { // looks at what the client takes begin its time anew
		s.Skip(silence)
	}
	if got := r.until(http2.RSTStream); !strings.HasPrefix(got, "RST_STREAM 1 ") {
		t.Error(got)
	}
	<-failed
}

// TestBodySetTimeout: the time of one request takes the place of the server's.
func TestBodySetTimeout(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		entered := make(chan bool, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			entered <- true
			req.Body().SetTimeout(5 * silence)
			if _, err := io.Copy(io.Discard, req.Body()); err != nil {
				return w.Error(400, err)
			}
			return 200
		}})
		c := s.Dial()
		defer c.Close()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
		<-entered
		s.Skip(4 * silence)
		send(t, c, "1234567890")
		if a := c.Answer("POST"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	})
}

// TestSlowInLog: what ends a request early is in the log, with its key.
func TestSlowInLog(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		entered := make(chan bool, 1)
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: time.Hour, MinRate: -1},
			Handler: byPath(map[string]conn.Handler{
				"/read": func(req *conn.Request, w *conn.Response) int {
					entered <- true
					if _, err := io.Copy(io.Discard, req.Body()); err != nil {
						return w.Error(400, err)
					}
					return 200
				},
				"/write": func(_ *conn.Request, w *conn.Response) int {
					w.SetBodyReader(readerFunc(func(p []byte) (int, error) { return len(p), nil }), 1<<40)
					return 200
				},
			})})
		c := s.Dial()
		send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
		<-entered
		s.Skip(2 * silence)
		if a := c.Answer("POST"); a.StatusCode != 408 {
			t.Error(a.Status)
		}
		c.Close()
		c = s.DialSmall()
		defer c.Close()
		send(t, c, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
		wait.Until(t, "the end of a client that does not read", func() bool {
			s.Skip(time.Hour) // its kernel may have taken some more meanwhile
			return strings.Contains(s.Log.String(), "target=/write")
		})
		log := s.Log.String()
		if !strings.Contains(log, "key=body_timeout limit=30s") ||
			!strings.Contains(log, "target=/read") ||
			!strings.Contains(log, "key=write_timeout limit=1h0m0s") {
			t.Error(log)
		}
	})
}
