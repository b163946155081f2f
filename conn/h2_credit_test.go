package conn_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// uint32Of is n as it stands in a frame.
func uint32Of(n uint32) string {
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// TestHTTP2WindowShrinks: the client makes the window of streams smaller while one of them waits
// for the window of the connection. Its own window is negative then (RFC 9113 section 6.9.2).
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
	for got := 0; got < http2.DefaultWindow; {
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
	for got := http2.DefaultWindow; got < len(body); {
		h, _ := r.data()
		if h.Type != http2.Data {
			t.Fatalf("frame %d after %d bytes", h.Type, got)
		}
		got += int(h.Length)
	}
}

// TestHTTP2LongDownload: the frames with which a client takes a long answer are of use, however
// many they are.
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
		r.frame(http2.WindowUpdate, 0, 0, uint32Of(h.Length)).frame(http2.WindowUpdate, 0, 1,
			uint32Of(h.Length)).flush()
	}
}

// TestHTTP2LateUpdates: a client may take a burst of content, and announce afterwards, piece by
// piece, that it has read it.
func TestHTTP2LateUpdates(t *testing.T) {
	t.Parallel()
	const size, piece = 8 << 20, 4 << 10
	body := make([]byte, size)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		w.SetBody(body)
		return 200
	}})
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(size)).frame(http2.WindowUpdate, 0, 0,
		uint32Of(size))
	r.get(1).flush()
	for got := 0; got < size; {
		h, p := r.data()
		if h.Type != http2.Data {
			t.Fatalf("the connection has ended after %d bytes", got)
		}
		got += len(p)
	}
	for range size / piece {
		r.frame(http2.WindowUpdate, 0, 0, uint32Of(piece)).frame(http2.WindowUpdate, 0, 1,
			uint32Of(piece))
	}
	r.frame(http2.Ping, 0, 0, "12345678").flush()
	if got := r.until(http2.Ping); got != "frame 6 on 0" {
		t.Error(got)
	}
}

// TestHTTP2SlowUpload: what a handler has not read stays within the windows, however long the
// upload, and whether or not the handler ever catches up.
func TestHTTP2SlowUpload(t *testing.T) {
	t.Parallel()
	const size, behind = 48 << 20, 100 << 10
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxBodySize: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				buf, total := make([]byte, 16<<10), 0
				first, err := io.ReadFull(req.Body(), buf)
				for total = first; err == nil; {
					for total < size-2*behind {
						if unread, _ := conn.Unread(req); unread > behind {
							break
						}
						req.Yield()
					}
					var n int
					n, err = req.Body().Read(buf)
					total += n
					if _, held := conn.Unread(req); held > 2<<20 {
						return w.Text(500, fmt.Sprint("holds ", held))
					}
				}
				return w.Text(200, fmt.Sprint(total))
			}})
	req, _ := http.NewRequest("POST", url2(s, "/"), io.LimitReader(zeros{}, size))
	if _, got := do2(t, client2(t, s), req); got != fmt.Sprint(size) {
		t.Error(got)
	}
	s.Stop(time.Second)
	if n := conn.Grown(s.Server); n != 0 {
		t.Errorf("%d bytes of windows are not given back", n)
	}
}

// TestHTTP2LongLine: a client far away, behind a proxy, soon sends as much as its line takes.
func TestHTTP2LongLine(t *testing.T) {
	t.Parallel()
	var served atomic.Pointer[conn.Server] // which the handler's loop reads
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxBodySize: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				n, _ := io.Copy(io.Discard, req.Body())
				return w.Text(200, fmt.Sprint(n, conn.Grown(served.Load())))
			}})
	served.Store(s.Server)
	const size = 16 << 20
	c := client2(t, s)
	c.Transport.(*http.Transport).DialContext = func(context.Context, string,
		string) (net.Conn, error) {
		return distant(t, s.Addr, 10*time.Millisecond), nil
	}
	req, _ := http.NewRequest("POST", url2(s, "/"), io.LimitReader(zeros{}, size))
	var n, grown int64
	_, got := do2(t, c, req)
	// The first windows are 64 KiB. A busy machine may send less in a round trip than the line has
	// room for, and then needs no more credit.
	if !scan(got, &n, &grown) || n != size || grown < 256<<10 {
		t.Error(got)
	}
}

func scan(s string, to ...any) bool {
	n, err := fmt.Sscan(s, to...)
	return n == len(to) && err == nil
}

// distant returns a connection to a server that each byte takes d to reach, and that takes d back.
func distant(t *testing.T, addr string, d time.Duration) net.Conn {
	near, client := net.Pipe()
	far := must.Get(net.Dial("tcp", addr))(t)
	carry := func(to, from net.Conn) {
		type piece struct {
			due time.Time
			b   []byte
		}
		line := make(chan piece, 1<<14)
		go func() {
			defer close(line)
			for {
				b := make([]byte, 32<<10)
				n, err := from.Read(b)
				if err != nil {
					return
				}
				line <- piece{time.Now().Add(d), b[:n]}
			}
		}()
		defer to.Close()
		for p := range line {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				from.Close()
			}
		}
	}
	go carry(far, near)
	go carry(near, far)
	return client
}

// TestHTTP2WindowsGrow: what the windows of all clients grow by is bounded, and given back.
func TestHTTP2WindowsGrow(t *testing.T) {
	t.Parallel()
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxBodySize: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				_, _ = req.AwaitAny(-1, req.Loop().Stopped())
				return w.Text(200, "stopped")
			}})
	const clients = 600
	for range clients {
		r := dial2(t, s)
		r.head(1, 0, ":method", "POST", ":scheme", "http", ":path", "/wait", ":authority", "a").flush()
		go func() {
			for r.out = nil; ; {
				if h, _ := r.next(); h.Type == 255 {
					return
				}
			}
		}()
	}
	s.Settled("all wait", func(*loop.Loop) bool { return s.Active() == clients })
	s.Settle()
	if n := conn.Grown(s.Server); n == 0 || n > 64<<20 {
		t.Errorf("windows have grown by %d bytes", n)
	}
	s.Stop(10 * time.Second)
	if n := conn.Grown(s.Server); n != 0 {
		t.Errorf("%d bytes of windows are not given back", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
