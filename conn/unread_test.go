package conn_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// unreading are handlers that read nothing of the body, one for each way of giving an answer.
func unreading(gate chan int) conn.Handler {
	ways := map[string]conn.Handler{
		"/whole": hello,
		"/reader": func(req *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("Hello, world!"), 13)
			return 200
		},
		"/endless": func(req *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("Hello, world!"), -1)
			return 200
		},
		"/stream": func(req *conn.Request, w *conn.Response) int {
			_, _ = w.Write(make([]byte, 40<<10))
			return 200
		},
		"/flush": func(req *conn.Request, w *conn.Response) int {
			_ = w.Flush()
			return 200
		},
		"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 40<<10))
		})),
	}
	return func(req *conn.Request, w *conn.Response) int {
		if req.RawQuery() == "gate" {
			if _, err := req.AwaitAny(-1, loop.FromChan(gate)); err != nil {
				return 500
			}
		}
		return ways[req.Path()](req, w)
	}
}

// TestNoEndWithoutNotice: a connection that ends behind an answer has said so in its head. A proxy
// gives any other to the request of another client.
func TestNoEndWithoutNotice(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a read does not give all that has come")
	t.Parallel()
	length := func(n int) string {
		return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, noise()[:n])
	}
	chunks := func(n int) string {
		return "Transfer-Encoding: chunked\r\n\r\n" + chunks(noise()[:n], 9999)
	}
	const (
		either = iota
		closes // as the next request cannot be found
		stays  // as a new connection would cost more
	)
	rows := []struct {
		body string
		what int
	}{
		{length(100_000), stays},
		{length(300_000), either},
		{length(3 << 20), either},
		{chunks(1000), stays},
		{chunks(300_000), either},
		{chunks(3 << 20), either},
		{"Transfer-Encoding: chunked\r\n\r\nwhat\r\n", closes},
		{"Transfer-Encoding: chunked\r\n\r\n0\r\nbad\r\n\r\n", closes},
	}
	run(t, func(t *testing.T, m mode) {
		gate := make(chan int)
		s := start(t, m, conn.Config{Handler: unreading(gate)})
		t.Cleanup(func() { close(gate) })
		for _, path := range []string{"/whole", "/reader", "/endless", "/stream", "/flush",
			"/http"} {
			for i, row := range rows {
				c := s.Dial()
				sent := make(chan error, 1)
				go func() {
					_, err := io.WriteString(c.Conn,
						"POST "+path+"?gate HTTP/1.1\r\nHost: a\r\n"+row.body)
					sent <- err
				}()
				if len(row.body) < 64<<10 {
					must.Do(t, <-sent)
					sent <- nil
					s.Settle()
				}
				gate <- 0
				a := c.Answer("POST")
				if a.StatusCode != 200 || row.what == closes && !a.Close ||
					row.what == stays && a.Close {
					t.Errorf("%s, row %d: %s, close is %v", path, i, a.Status, a.Close)
				}
				if a.Close {
					c.Ends()
				} else {
					if err := <-sent; err != nil {
						t.Fatalf("%s, row %d: %v", path, i, err)
					}
					send(t, c, "POST /whole HTTP/1.1\r\nHost: a\r\n\r\n")
					if a := c.Answer("POST"); a.Text != "Hello, world!" {
						t.Errorf("%s, row %d: the next one is %s", path, i, a.Status)
					}
				}
				c.Close()
			}
		}
	}, plain, direct, overTLS)
}
