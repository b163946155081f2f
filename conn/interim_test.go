package conn_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestInterim: interim responses go out at once and in order, without what frames a message, and
// not to HTTP/1.0; trailers go out behind chunks; the date of a relayed answer is kept.
func TestInterim(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			body := req.Body()
			body.KeepTrailer()
			var h conn.Header
			h.Add("Link", "</a>")
			h.Add("content-length", "5")
			h.Add("X", "a\r\nb")
			_ = w.Inform(103, &h)
			_ = w.Inform(101, nil)
			_ = w.Inform(200, nil)
			if body.Expects() {
				_ = w.Inform(http.StatusContinue, nil)
			}
			if body.Expects() {
				t.Error("100 was sent")
			}
			text, err := io.ReadAll(body)
			if err != nil {
				t.Error(err)
			}
			w.Layer().Relay(200, "")
			w.Header().Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
			_, _ = w.Write(text)
			_ = w.Flush()
			_ = w.Inform(103, &h)
			body.Trailer(w.AddTrailer)
			w.AddTrailer("Content-Length", "5")
			w.AddTrailer("X", "a\r\nb")
			return 200
		}})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n")
		const interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
		got := make([]byte, len(interim))
		if _, err := io.ReadFull(c.R, got); err != nil || string(got) != interim {
			t.Fatalf("%q, %v", got, err)
		}
		send(t, c, "2\r\nhi\r\n0\r\nT: x\r\ncontent-length: 7\r\n\r\n")
		rest, err := io.ReadAll(c.R)
		text := string(rest)
		if err != nil || !strings.HasSuffix(text, "\r\n\r\n2\r\nhi\r\n0\r\nT: x\r\n\r\n") ||
			strings.Count(text, "Date: ") != 1 ||
			!strings.Contains(text, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n") ||
			strings.Contains(text, "103") {
			t.Errorf("%q, %v", text, err)
		}
		old := s.Exchange("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
		if !strings.HasPrefix(old, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(old, "\r\n\r\nhi") {
			t.Errorf("1.0: %q", old)
		}
	}, http1...)
}
