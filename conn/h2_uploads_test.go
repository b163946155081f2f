package conn_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// windows2 is what a server has let a client send.
type windows2 struct {
	*raw2
	connection int64
	streams    map[uint32]int64
	own        int64 // of a new stream
	ended      map[uint32]string
}

func dialWindows2(t *testing.T, s *site) *windows2 {
	w := &windows2{raw2: dial2(t, s), connection: http2.DefaultWindow, streams: map[uint32]int64{},
		own: http2.DefaultWindow, ended: map[uint32]string{}}
	w.flush()
	for {
		h, p := w.next()
		if h.Type == http2.SettingsFrame && h.Flags&http2.Ack == 0 {
			for ; len(p) > 0; p = p[6:] {
				if p[1] == byte(http2.InitialWindowSize) {
					w.own = int64(http2.Uint32(p[2:]))
				}
			}
			return w
		}
	}
}

// post begins an upload.
func (w *windows2) post(id uint32, path string) {
	w.head(id, 0, ":method", "POST", ":scheme", "http", ":path", path, ":authority", "a").flush()
	w.streams[id] = w.own
}

// take acts on the next frame of the server, and reports whether the connection goes on.
func (w *windows2) take() bool {
	h, p := w.next()
	switch h.Type {
	case http2.WindowUpdate:
		if h.Stream == 0 {
			w.connection += int64(http2.Uint32(p))
		} else {
			w.streams[h.Stream] += int64(http2.Uint32(p))
		}
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			w.frame(http2.Ping, http2.Ack, 0, string(p)).flush()
		}
	case http2.Headers:
		var d http2.Decoder
		var f http2.Fields
		f.Reset(1 << 20)
		_ = d.Decode(p, &f)
		w.ended[h.Stream] = string(f.List[0].Value.Of(f.Buf))
	case http2.RSTStream, http2.GoAway:
		w.ended[h.Stream] = fmt.Sprint("frame ", h.Type, p)
		return h.Type == http2.RSTStream
	case 255:
		return false
	}
	return true
}

// send sends as much of n bytes as the windows allow at once, and returns how much.
func (w *windows2) send(id uint32, n int64) (sent int64) {
	for n = min(n, w.streams[id], w.connection); sent < n; {
		k := min(n-sent, http2.DefaultFrameSize)
		w.frame(http2.Data, 0, id, strings.Repeat("x", int(k)))
		sent += k
		w.streams[id] -= k
		w.connection -= k
	}
	w.flush()
	return sent
}

// pong lets the server act on all that was sent, and takes what it says.
func (w *windows2) pong() {
	w.frame(http2.Ping, 0, 0, "all sent").flush()
	for {
		h, p := w.next()
		switch {
		case h.Type == http2.Ping && h.Flags&http2.Ack != 0:
			return
		case h.Type == 255:
			w.t.Fatal("the connection has ended")
		case h.Type == http2.WindowUpdate && h.Stream == 0:
			w.connection += int64(http2.Uint32(p))
		case h.Type == http2.WindowUpdate:
			w.streams[h.Stream] += int64(http2.Uint32(p))
		case h.Type == http2.Ping:
			w.frame(http2.Ping, http2.Ack, 0, string(p)).flush()
		}
	}
}

// TestHTTP2UnreadUploads: uploads that nobody reads do not hold up another one of their connection,
// and what the server holds of them is bounded, and given back.
func TestHTTP2UnreadUploads(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	release := make(chan struct{})
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{BodyTimeout: wait.Patience, MaxBodySize: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/unread" {
					_, _ = req.AwaitAny(-1, loop.FromChan(release))
				}
				n, err := io.Copy(io.Discard, req.Body())
				return w.Text(200, fmt.Sprint(n, err))
			}})
	for _, unread := range []int{1, 2, 20, 100} {
		w := dialWindows2(t, s)
		id, sent := uint32(1), int64(0)
		for range unread {
			w.post(id, "/unread")
			for w.pong(); w.streams[id] > 0; w.pong() {
				n := w.send(id, w.streams[id])
				if n == 0 {
					t.Fatalf("%d uploads of which nobody reads: %d of another wait after %d", unread,
						w.streams[id], sent)
				}
				sent += n
			}
			id += 2
		}
		if sent > 20<<20 {
			t.Errorf("%d bytes are held of %d uploads", sent, unread)
		}
		w.post(id, "/read")
		for left := int64(size); left > 0; {
			n := w.send(id, left)
			if left -= n; n == 0 && !w.take() || w.ended[id] != "" {
				t.Fatalf("%d left, ended %q", left, w.ended[id])
			}
		}
		w.frame(http2.Data, http2.EndStream, id, "").flush()
		for w.ended[id] == "" && w.take() {
		}
		if w.ended[id] != "200" {
			t.Errorf("%d uploads of which nobody reads: another has ended with %q", unread, w.ended[id])
		}
		w.Close()
	}
	close(release)
	s.Idle()
	if n := conn.Grown(s.Server); n != 0 {
		t.Errorf("%d bytes of windows are not given back", n)
	}
}

// TestHTTP2NoCredit: a client that has no credit on its connection is not silent.
func TestHTTP2NoCredit(t *testing.T) {
	t.Parallel()
	const silence = wait.Patience
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Limits: conn.Limits{BodyTimeout: silence, MaxBodySize: -1},
		Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/unread" {
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
			}
			n, err := io.Copy(io.Discard, req.Body())
			return w.Text(200, fmt.Sprint(n, err))
		}})
	defer conn.TakeWindows(s.Server)() // the server has no more to lend
	w := dialWindows2(t, s)
	w.post(1, "/unread")
	for w.pong(); w.connection > 0; w.pong() {
		if n := w.send(1, w.streams[1]); n == 0 {
			t.Fatal("the window of a stream is smaller than that of its connection")
		}
	}
	w.post(3, "/read")
	for range 4 {
		s.Settle()
		s.Skip(silence / 2)
	}
	close(release)
	for w.connection <= 0 && w.ended[3] == "" && w.take() {
	}
	w.frame(http2.Data, http2.EndStream, 3, "").flush()
	for w.ended[3] == "" && w.take() {
	}
	if w.ended[3] != "200" {
		t.Errorf("an upload that must not send has ended with %q", w.ended[3])
	}
}
