package conn_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/test/modes"
)

// uint32Of is n as it stands in a frame.
func uint32Of(n uint32) string {
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// TestHTTP2WindowShrinks: the client makes the window of streams smaller while one of them waits for
// the window of the connection. Its own window is negative then (RFC 9113 section 6.9.2).
func TestHTTP2WindowShrinks(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 200<<10)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		w.SetBody([]byte(body))
		return 200
	}})
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(128<<10))
	r.get(1).flush()
	for got := 0; got < http2.Window; {
		h, _ := r.data()
		if h.Type != http2.Data {
			t.Fatalf("frame %d after %d bytes", h.Type, got)
		}
		got += int(h.Length)
	}
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(1))
	r.frame(http2.WindowUpdate, 0, 0, uint32Of(1<<20)).frame(http2.Ping, 0, 0, "12345678").flush()
	if got := r.until(http2.Ping, http2.Data); got != "frame 6 on 0" {
		t.Fatal(got)
	}
	r.frame(http2.WindowUpdate, 0, 1, uint32Of(1<<20)).flush()
	for got := http2.Window; got < len(body); {
		h, _ := r.data()
		if h.Type != http2.Data {
			t.Fatalf("frame %d after %d bytes", h.Type, got)
		}
		got += int(h.Length)
	}
}

// TestHTTP2LongDownload: the frames with which a client takes a long answer are of use, however many
// they are.
func TestHTTP2LongDownload(t *testing.T) {
	t.Parallel()
	body := make([]byte, 16<<20)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		w.SetBody(body)
		return 200
	}})
	r := dial2(t, s).get(1).flush()
	for got := 0; got < len(body); {
		h, p := r.data()
		if h.Type != http2.Data {
			t.Fatalf("the connection has ended after %d bytes", got)
		}
		got += len(p)
		r.frame(http2.WindowUpdate, 0, 0, uint32Of(h.Length)).frame(http2.WindowUpdate, 0, 1, uint32Of(h.Length)).flush()
	}
}
