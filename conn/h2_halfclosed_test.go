package conn_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2HalfClosed: fields on a stream whose request has ended are refused with STREAM_CLOSED,
// and what they have put into the table is there for the next request (RFC 7541 section 2.2).
func TestHTTP2HalfClosed(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/wait" {
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
		}
		return 204
	}})
	defer close(release)
	const path = "\x44\x05/next" // a path that is put into the table,
	const again = "\xbe"         // where it is the last field
	for name, send := range map[string]func(r *raw2){
		"one frame": func(r *raw2) { r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, path) },
		"two": func(r *raw2) {
			r.frame(http2.Headers, 0, 1, path[:3]).frame(http2.Continuation, http2.EndHeaders, 1, path[3:])
		},
		"padded": func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders|http2.EndStream|http2.Padded, 1, "\x02"+path+"\x00\x00")
		},
	} {
		r := dial2(t, s)
		r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/wait", ":authority",
			"a")
		send(r)
		r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 3,
			block(":method", "GET", ":scheme", "http", ":authority", "a")+again).flush()
		got := r.until(http2.RSTStream, http2.GoAway) + ", " + r.until(http2.Headers, http2.GoAway)
		if got != "RST_STREAM 1 STREAM_CLOSED, HEADERS 3 204" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
