package conn_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestPageOfStatusSent: the page is that of the status that goes out, whatever the handler says of
// a body that has failed, or of an answer that cannot be sent.
func TestPageOfStatusSent(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{BodyTimeout: 50 * time.Millisecond},
			Handler: func(req *conn.Request, w *conn.Response) int {
				pages := req.Header().Get("Pages")
				w.Layer().OnError(func(_ *conn.Request, w *conn.Response, status int) bool {
					if pages != "" && !strings.Contains(pages, fmt.Sprint(status)) {
						return false
					}
					fmt.Fprintf(w, "page of %d", status)
					return true
				})
				switch req.Path() {
				case "/field":
					w.Header().Set("A b", "x")
					return 404
				case "/status":
					return 7
				case "/reader": // it is read only when the handler has returned
					req.Body().SetLimit(4)
					w.SetBodyReader(req.Body(), -1)
					return 200
				}
				req.Body().SetLimit(4)
				if _, err := io.ReadAll(req.Body()); err == nil {
					t.Error("a body without an end")
				}
				return 400
			}})
		for _, c := range []struct {
			line, fields, body string
			want               int
		}{
			{"POST /", "Content-Length: 5", "hello", 413},
			{"POST /", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n", 413},
			{"POST /", "Content-Length: 4", "slo", 408},
			{"POST /", "Transfer-Encoding: chunked", "x\r\n", 400},
			{"POST /reader", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n", 413},
			{"GET /field", "A: b", "", 500}, {"GET /status", "A: b", "", 500},
		} {
			for _, pages := range []string{"", fmt.Sprint(c.want), "413 408 500"} {
				d := s.Dial()
				d.Send(c.line + " HTTP/1.1\r\nHost: a\r\n" + c.fields + "\r\nPages: " + pages + "\r\n\r\n" +
					c.body)
				a := d.Answer("POST")
				want := fmt.Sprintf("page of %d", c.want)
				if c.want == 400 && pages == "413 408 500" {
					want = "<!doctype"
				}
				if a.StatusCode != c.want || !strings.HasPrefix(a.Text, want) {
					t.Errorf("%s %q, pages %q: %d %.40q, want %d %q", c.line, c.body, pages, a.StatusCode, a.Text,
						c.want, want)
				}
			}
		}
	}, plain, direct)
}
