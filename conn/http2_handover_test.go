package conn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// silent is a Keeper that ends at once.
type silent struct{}

func (silent) Run(*loop.Thread) (time.Duration, bool) { return 0, false }
func (silent) End(*loop.Thread)                       {}

// TestHTTP2HandOverWithoutHead: the stream of a keeper that has written no head is reset, and nothing
// else comes to harm.
func TestHTTP2HandOverWithoutHead(t *testing.T) {
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Method() == "GET" {
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
	r.head(1, 0, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/",
		":authority", "a").flush()
	if got := r.until(http2.RSTStream, http2.GoAway); !strings.HasPrefix(got, "RST_STREAM 1 ") {
		t.Error(got)
	}
	r.get(3).flush()
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 3 204" {
		t.Error(got)
	}
}
