package conn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestBridgeBulkEnds: whatever ends a request whose handler is sending and receiving in bulk, in
// both directions at once, the handler learns it. The access log knows how much went to and fro.
func TestBridgeBulkEnds(t *testing.T) {
	t.Parallel()
	const least = 1 << 20 // bytes in each direction before the end
	run(t, func(t *testing.T, m mode) {
		type moved struct{ read, wrote int64 }
		for _, end := range []string{"reset", "stop"} {
			contexts, log := make(chan context.Context, 1), new(entries)
			ended, errs := make(chan moved, 1), make(chan error, 2)
			s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: -1}, AccessLog: log,
				Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					contexts <- r.Context()
					var n moved
					uploaded := make(chan struct{})
					go func() {
						defer close(uploaded)
						var err error
						n.read, err = io.Copy(struct{ io.Writer }{io.Discard}, r.Body)
						errs <- err
					}()
					var err error
					for piece := make([]byte, 40<<10); err == nil; {
						var k int
						k, err = w.Write(piece)
						n.wrote += int64(k)
					}
					errs <- err
					<-uploaded
					ended <- n
				}))})
			c := s.Dial()
			send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			enough := make(chan struct{}, 2)
			go func() {
				one := []byte("8000\r\n" + string(make([]byte, 32<<10)) + "\r\n")
				for n := 0; ; n += len(one) {
					if n > least && n-len(one) <= least {
						enough <- struct{}{}
					}
					if _, err := c.Write(one); err != nil {
						return
					}
				}
			}()
			got := make(chan int64, 1)
			go func() {
				first, _ := io.CopyN(io.Discard, c.R, least)
				enough <- struct{}{}
				rest, _ := io.Copy(io.Discard, c.R)
				got <- first + rest
			}()
			ctx := <-contexts
			<-enough
			<-enough
			if end == "reset" {
				c.Reset()
			} else {
				s.Stop(time.Millisecond)
			}
			for range 2 {
				if err := <-errs; err == nil {
					t.Errorf("%s: a direction has ended without an error", end)
				}
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, loop.ErrClientGone) {
				t.Errorf("%s: cause %v", end, cause)
			}
			n, at := <-ended, <-got
			if end == "reset" { // a thread that a stop has killed logs nothing
				e := log.one(t)
				if e.Received < n.read || e.Received > n.read+128<<10 { // as much may be read ahead
					t.Errorf("%d bytes received, the handler has read %d", e.Received, n.read)
				}
				if e.Bytes < at/2 || e.Bytes > n.wrote*101/100 {
					t.Errorf("%d bytes sent, written %d, got %d", e.Bytes, n.wrote, at)
				}
			}
			c.Close()
		}
	}, plain, direct)
}
