package conn_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// TestRelay: an answer that is another server's gets nothing added, streamed or not; one that
// cannot be completed is cut; and as long as nothing has gone out there may be another.
func TestRelay(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/whole": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(404, "Nope")
				return 404
			},
			"/stream": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(404, "Nope")
				w.Flush()
				w.WriteString("x")
				return 404
			},
			"/again": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(201, "Made\r\nX: y")
				w.Header().Set("X", "y")
				w.WriteString("of the first")
				w.Layer().Clear()
				return 502
			},
			"/cut": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(203, "")
				w.Flush()
				w.WriteString("begun")
				w.Abort()
				return 203
			},
			"/bad": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(404, "No\r\nX: y")
				return 404
			},
			"/other": func(_ *conn.Request, w *conn.Response) int {
				w.Layer().Relay(404, "Nope")
				return 304
			},
			"/nothing": func(_ *conn.Request, w *conn.Response) int { w.Abort(); return 200 },
		})})
		for path, want := range map[string]struct {
			status int
			text   string
		}{"/whole": {404, ""}, "/stream": {404, "x"}} {
			a := s.Dial().Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if a.StatusCode != want.status || a.Text != want.text || a.Status != "404 Nope" && !m.HTTP2 ||
				a.Header.Get("Content-Type") != "" {
				t.Errorf("%s: %s %v %q", path, a.Status, a.Header, a.Text)
			}
		}
		for path, want := range map[string]string{"/bad": "404 Not Found",
			"/other": "304 Not Modified"} {
			a := s.Dial().Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if a.Status != want || a.Header.Get("X") != "" {
				t.Errorf("%s: %s %v", path, a.Status, a.Header)
			}
		}
		a := s.Dial().Do("GET", "GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.StatusCode != 502 || a.Header.Get("X") != "" ||
			!strings.Contains(a.Text, "502 Bad Gateway") {
			t.Errorf("another answer: %s %v %q", a.Status, a.Header, a.Text)
		}
		for path, want := range map[string]string{"/cut": "begun\r\n", "/nothing": ""} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if b, _ := io.ReadAll(c.R); !strings.HasSuffix(string(b), want) ||
				want == "" && len(b) > 0 {
				t.Errorf("%s: %q", path, b)
			}
		}
	})
}

// TestBodyLimit: a handler's own limit is told as the server's is, and does not raise it.
func TestBodyLimit(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: 10},
			Handler: func(req *conn.Request, w *conn.Response) int {
				limit := int64(5)
				if req.Path() == "/more" {
					limit = 100
				}
				req.Body().SetLimit(limit)
				io.Copy(w, req.Body())
				return http.StatusOK
			}})
		for wire, want := range map[string]int{
			"/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello":                                      200,
			"/ HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nhello!":                                     413,
			"/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":           200,
			"/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n": 413,
			"/more HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhellohello":                            200,
			"/more HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhellohello!\r\n0\r\n\r\n": 413,
		} {
			if a := s.Dial().Do("POST", "POST "+wire); a.StatusCode != want {
				t.Errorf("%q: %s", wire, a.Status)
			}
		}
	})
}

// TestBothDirections: a stream is written as far as there is room and awaited in both directions,
// and its socket goes on to live outside the loop.
func TestBothDirections(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
			fds, err := unix.Socketpair(unix.AF_UNIX,
				unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return 500
			}
			defer unix.Close(fds[1])
			st, err := stream.New(req.Loop(), fds[0])
			if err != nil {
				t.Error(err)
				return 500
			}
			st.SetNoWait(true)
			block := make([]byte, 64<<10)
			for err == nil {
				_, err = st.TryWrite(block)
			}
			if !errors.Is(err, stream.ErrWouldBlock) {
				t.Error("full: ", err)
			}
			if err := st.AwaitReadWrite(time.Millisecond); !invariants.Enabled &&
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("neither: ", err)
			}
			unix.Write(fds[1], []byte("x"))
			if err := st.AwaitReadWrite(time.Second); err != nil || !st.Unread() {
				t.Error("to read: ", err)
			}
			n, err := st.Read(block)
			for invariants.Enabled && errors.Is(err, stream.ErrWouldBlock) { // made to fail
				n, err = st.Read(block)
			}
			if n != 1 || err != nil {
				t.Error(n, err)
			}
			fd, err := st.Release()
			if err != nil || fd != fds[0] {
				t.Error("released: ", fd, err)
			}
			if _, err := st.Release(); err == nil {
				t.Error("twice")
			}
			if st, err = stream.New(req.Loop(), fd); err != nil {
				t.Error(err)
				return 500
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			return 200
		}})
		s.Dial().Do("GET", get)
	})
}
