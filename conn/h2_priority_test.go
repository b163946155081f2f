package conn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2Priorities: when the connection's window opens, the most urgent streams go first, those
// of one urgency take turns, and PRIORITY_UPDATE changes what the request has said, before it or
// later.
func TestHTTP2Priorities(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat("x", 100<<10))
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		w.SetBody(body)
		return 200
	}})
	update := func(r *raw2, id uint32, value string) {
		r.frame(http2.PriorityUpdate, 0, 0, uint32Of(id)+value)
	}
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(1<<20))
	update(r, 9, "u=0") // before its request
	update(r, 9, "i, u=1")
	r.get(1).flush()
	for got := 0; got < http2.DefaultWindow; { // the first takes the window of the connection
		_, p := r.data()
		got += len(p)
	}
	r.get(3, "priority", "u=5").get(5).get(7, "priority", "u=2, i").get(9, "priority", "u=7").get(11)
	update(r, 11, "u=6")
	r.frame(http2.Ping, 0, 0, "12345678").flush()
	r.until(http2.Ping)
	r.frame(http2.WindowUpdate, 0, 0, uint32Of(1<<20)).flush()
	var order []uint32
	turns, left := 0, len(body)*6-http2.DefaultWindow
	for last := uint32(0); left > 0; {
		h, p := r.data()
		if h.Type != http2.Data {
			t.Fatalf("frame %d with %d bytes to come", h.Type, left)
		}
		left -= len(p)
		if n := len(order); n == 0 || order[n-1] != h.Stream {
			order = append(order, h.Stream)
		}
		if last != h.Stream && (h.Stream == 1 || h.Stream == 5) {
			turns++
		}
		last = h.Stream
	}
	if order[0] != 9 || order[1] != 7 || turns < 4 {
		t.Errorf("%v", order)
	}
	for i := 2; i < len(order)-2; i++ {
		if order[i] != 1 && order[i] != 5 {
			t.Errorf("%v", order)
			break
		}
	}
	if n := len(order); order[n-2] != 3 || order[n-1] != 11 {
		t.Errorf("%v", order)
	}
	update(r, 2, "u=1")
	r.flush()
	if got := r.until(http2.GoAway); got != "GOAWAY PROTOCOL_ERROR" {
		t.Error(got)
	}
}

// TestHTTP2Incremental: of one urgency, answers that are not incremental go out one after the other
// in the order of their requests, and those that are take turns behind them.
func TestHTTP2Incremental(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	body, release, released := make([]byte, size), make(chan struct{}), make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/later" {
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
			close(released)
		}
		w.SetBody(body)
		return 200
	}})
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(1<<20))
	r.get(1, "priority", "u=3").flush()
	for got := 0; got < http2.DefaultWindow; { // the first takes the window of the connection
		_, p := r.data()
		got += len(p)
	}
	r.head(3, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/later", ":authority",
		"a", "priority", "u=3")
	r.get(5, "priority", "i").get(7).get(9, "priority", "u=3, i").get(11, "priority", "u=3").get(13,
		"priority", "u=3, i").get(15, "priority", "u=4")
	r.frame(http2.PriorityUpdate, 0, 0, uint32Of(13)+"u=3").frame(http2.Ping, 0, 0, "12345678").flush()
	r.until(http2.Ping)
	close(release) // the oldest of those that are not incremental is ready last
	<-released
	s.Settle()
	r.frame(http2.WindowUpdate, 0, 0, uint32Of(1<<20)).flush()
	var order []uint32
	for left := 8*size - http2.DefaultWindow; left > 0; {
		h, p := r.data()
		if h.Type != http2.Data {
			t.Fatalf("frame %d with %d bytes to come", h.Type, left)
		}
		left -= len(p)
		if n := len(order); n == 0 || order[n-1] != h.Stream {
			order = append(order, h.Stream)
		}
	}
	n := len(order) - 1
	if len(order) < 10 || !slices.Equal(order[:4], []uint32{1, 3, 11, 13}) || order[n] != 15 {
		t.Fatal(order)
	}
	for i := 4; i < 10; i++ { // in turn
		if id := order[i]; id != 5 && id != 7 && id != 9 || id == order[i+1] || id == order[i-1] ||
			i > 6 && id != order[i-3] {
			t.Fatal(order)
		}
	}
}
