package conn_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/wait"
)

// framed frames a body.
func framed(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// TestChunksAreReadAtLength: a chunked body does not go through the small buffer of heads. It has
// all arrived when the handler begins to read.
func TestChunksAreReadAtLength(t *testing.T) {
	ci.Without(t, invariants.Enabled, "reads are cut short")
	const size = 256 << 10
	arrived := make(chan struct{})
	var reads atomic.Int64
	s := start(t, plain, conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
		if _, err := conn.Await(req, wait.Patience, func(context.Context) (int, error) {
			<-arrived
			return 0, nil
		}); err != nil {
			t.Error(err)
		}
		buf, all := make([]byte, 32<<10), 0
		for {
			n, err := req.Body().Read(buf)
			if all += n; err != nil {
				if err != io.EOF || all != size {
					t.Errorf("%d bytes, %v", all, err)
				}
				return 204
			}
			reads.Add(1)
		}
	}})
	c := s.Dial()
	go func() {
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		send(t, c, framed(strings.Repeat("x", size), 32<<10))
		close(arrived)
	}()
	if a := c.Answer("POST"); a.StatusCode != 204 {
		t.Error(a.Status)
	}
	if n := reads.Load(); n > 30 { // 9 and a few more; by way of the buffer of heads, 128
		t.Errorf("%d reads", n)
	}
}

// TestChunksEndWhereTheyEnd: whatever the sizes of chunks and reads, what is read belongs to the
// body, and the request behind it is the next one.
func TestChunksEndWhereTheyEnd(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 5000) // longer than any read
	run(t, func(t *testing.T, m mode) {
		var reads atomic.Int64 // bytes
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/read": func(req *conn.Request, resp *conn.Response) int {
				buf := make([]byte, reads.Load())
				var got strings.Builder
				if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{req.Body()},
					buf); err != nil {
					t.Error(err)
				}
				if got.String() != text {
					t.Errorf("read %d: %d bytes", len(buf), got.Len())
				}
				return 204
			},
			"/leave": func(*conn.Request, *conn.Response) int { return 204 },
			"/next":  func(*conn.Request, *conn.Response) int { return 205 },
		})})
		for _, size := range []int{100, 3000, 32 << 10, 100_000} {
			reads.Store(int64(size))
			for _, chunk := range []int{700, 5000, 32 << 10, 1 << 20} {
				var raw strings.Builder
				for _, path := range []string{"/read", "/leave", "/read"} {
					body := framed(text, chunk)
					if path == "/leave" {
						body = framed(text[:300], chunk)
					}
					fmt.Fprintf(&raw, "POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s"+
						"GET /next HTTP/1.1\r\nHost: a\r\n\r\n", path, body)
				}
				c := s.Dial()
				go func() { _, _ = io.WriteString(c, raw.String()) }() // until the end, at the latest
				for i, method := range []string{"POST", "GET", "POST", "GET", "POST", "GET"} {
					a := c.Answer(method)
					if want := 204 + i%2; a.StatusCode != want {
						t.Errorf("read %d, chunk %d, answer %d: %s", size, chunk, i, a.Status)
					}
					if i == 2 && a.Close { // the end of the body that was left has not come yet
						break
					}
				}
			}
		}
	})
}
