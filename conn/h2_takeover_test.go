package conn_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// silent is a Keeper that ends at once.
type silent struct{}

func (silent) Run(*loop.Thread) (time.Duration, bool) { return 0, false }
func (silent) End(*loop.Thread)                       {}

// TestHTTP2HandOverWithoutHead: the stream of a keeper that has written no head is reset, and
// nothing else comes to harm.
func TestHTTP2HandOverWithoutHead(t *testing.T) {
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() != "/keeper" {
			return 204
		}
		if _, _, err := resp.Hijack(); err != nil {
			return 500
		}
		if err := resp.Layer().HandOver(silent{}); err != nil {
			t.Error(err)
		}
		return 0
	}})
	r := dial2(t, s)
	r.head(1, 0, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/keeper",
		":authority", "a", "sec-websocket-version", "13").flush()
	if got := r.until(http2.Headers, http2.RSTStream,
		http2.GoAway); got != "RST_STREAM 1 INTERNAL_ERROR" {
		t.Error(got)
	}
	r.get(3).flush()
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 3 204" {
		t.Error(got)
	}
}

// TestHTTP2HandedOverEndsFirst: behind the end of a stream that a handler has taken over, what its
// client still sends is no mistake, and neither is its end.
func TestHTTP2HandedOverEndsFirst(t *testing.T) {
	const switching = "HTTP/1.1 101 Switching Protocols\r\n\r\n"
	std := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, switching)
		_ = c.Close()
	}))
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/bridge" {
			return std(req, resp)
		}
		c, _, err := resp.Hijack()
		if err != nil {
			return 500
		}
		_, _ = io.WriteString(c, switching)
		if req.Path() == "/keeper" {
			must.Do(t, resp.Layer().HandOver(silent{}))
		}
		return 0
	}})
	for _, path := range []string{"/", "/keeper", "/bridge"} {
		r := dial2(t, s)
		r.head(1, 0, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", path,
			":authority", "a", "sec-websocket-version", "13").flush()
		if got := r.until(http2.Data, http2.RSTStream, http2.GoAway); got != "frame 0 on 1" {
			t.Errorf("%s: %s", path, got)
		}
		s.Settle()
		r.frame(http2.Data, 0, 1, "late").frame(http2.Data, http2.EndStream, 1, "")
		if got := r.resets(); got != "" {
			t.Errorf("%s: then %q", path, got)
		}
		r.Close()
	}
	s.Idle()
}
