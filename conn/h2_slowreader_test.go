package conn_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"golang.org/x/sys/unix"
)

// steady reads the answers of streams. Whenever all has come that the connection has credit for,
// step passes, and it opens the windows of the streams and the connection by so much. It returns
// how much has come of each, and how the first that has not come to its end was reset.
func (r *raw2) steady(s *site, streams int, ofStream, ofConnection uint32,
	step time.Duration) (got map[uint32]int, reset string) {
	r.t.Helper()
	got = map[uint32]int{}
	for ended, credit := 0, http2.DefaultWindow; ended < streams; {
		if credit == 0 {
			s.Skip(step)
			for i := range streams {
				if ofStream > 0 {
					r.frame(http2.WindowUpdate, 0, uint32(2*i+1), uint32Of(ofStream))
				}
			}
			r.frame(http2.WindowUpdate, 0, 0, uint32Of(ofConnection)).flush()
			credit += int(ofConnection)
		}
		h, p := r.next()
		switch h.Type {
		case http2.Data:
			credit -= len(p)
			got[h.Stream] += len(p)
			if h.Flags&http2.EndStream != 0 {
				ended++
			}
		case http2.RSTStream:
			if http2.Code(http2.Uint32(p)) != http2.NoError {
				return got, http2.Code(http2.Uint32(p)).String()
			}
		case http2.GoAway, 255:
			return got, "end of the connection"
		}
	}
	return got, ""
}

// TestHTTP2SteadyReader: a client that takes an answer steadily gets all of it, however long that
// lasts, and however the answer is made.
func TestHTTP2SteadyReader(t *testing.T) {
	t.Parallel()
	const silence = wait.Patience
	const size = http2.DefaultWindow + 60<<10 // the rest takes twice as long
	body := make([]byte, size)
	for name, h := range map[string]conn.Handler{
		"given": func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 },
		"duplex": func(req *conn.Request, w *conn.Response) int {
			d := req.Layer().Duplex()
			_, _ = w.Write(body)
			_ = w.Flush()
			for {
				if left, err := d.SendHeld(); left == 0 || err != nil || d.Await(-1, false) != nil {
					break
				}
			}
			_ = d.End()
			return 200
		},
		"off the loop": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(body)
		})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, modes.HTTP2,
				conn.Config{Handler: h, Limits: conn.Limits{WriteTimeout: silence, MinRate: -1}})
			r := dial2(t, s).get(1).flush()
			got, reset := r.steady(s, 1, 1<<10, 1<<10, silence/25)
			if reset != "" || got[1] != size {
				t.Errorf("%d bytes of %d, %s", got[1], size, reset)
			}
			r = dial2(t, s).frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(1<<20)).get(1).flush()
			got, reset = r.steady(s, 1, 0, 1<<10, silence/25)
			if reset != "" || got[1] != size {
				t.Errorf("by the window of the connection: %d bytes of %d, %s", got[1], size, reset)
			}
		})
	}
}

// TestHTTP2WaitsForItsTurn: an answer that other streams of the connection go before is nobody's
// fault.
func TestHTTP2WaitsForItsTurn(t *testing.T) {
	t.Parallel()
	const silence, size, streams = wait.Patience, 48 << 10, 8 // the last one waits for twice as long
	body := make([]byte, size)
	s := start(t, modes.HTTP2, conn.Config{Limits: conn.Limits{WriteTimeout: silence, MinRate: -1},
		Handler: func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 }})
	r := dial2(t, s)
	for i := range streams {
		r.get(uint32(2*i+1), "priority", "u=3")
	}
	r.flush()
	got, reset := r.steady(s, streams, 0, 4<<10, silence/40)
	if reset != "" {
		t.Errorf("%s, %v", reset, got)
	}
}

// TestHTTP2SilentReader: a client that opens no window is left after the time of silence, whichever
// window that is, whatever it sends besides, and whether it has taken something before.
func TestHTTP2SilentReader(t *testing.T) {
	t.Parallel()
	const silence = 200 * time.Millisecond
	body := make([]byte, 300<<10)
	for _, row := range []struct {
		name              string
		ofStream, ofWhole uint32
	}{{"stream", 0, 1 << 20}, {"connection", 1 << 20, 0}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, modes.HTTP2, conn.Config{Limits: conn.Limits{WriteTimeout: silence},
				Handler: func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 }})
			r := dial2(t, s)
			if row.ofStream > 0 {
				r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(row.ofStream))
			}
			if row.ofWhole > 0 {
				r.frame(http2.WindowUpdate, 0, 0, uint32Of(row.ofWhole))
			}
			r.get(1).flush()
			done := make(chan struct{})
			defer close(done)
			go func() {
				for range time.Tick(silence / 10) {
					select {
					case <-done:
						return
					default:
						_, _ = r.Write(append(http2.AppendHeader(nil, http2.Ping, 0, 0, 8), "12345678"...))
					}
				}
			}()
			if got := r.until(http2.RSTStream, http2.GoAway); got != "RST_STREAM 1 CANCEL" {
				t.Error(got)
			}
		})
	}
}

// TestHTTP2SlowLine: what stands in the kernel's queue has not reached the client, which cannot
// open a window for it.
func TestHTTP2SlowLine(t *testing.T) {
	t.Parallel()
	const silence, size, streams = wait.Patience, 100 << 10, 16
	// bytes in a time of silence: the windows of all take five of these
	const rate = size * streams / 8
	body := make([]byte, size)
	s := start(t, modes.HTTP2, conn.Config{Limits: conn.Limits{WriteTimeout: silence, MinRate: -1},
		Handler: func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 }})
	r := dial2(t, s)
	must.Do(t, r.Conn.(*net.TCPConn).SetReadBuffer(16<<10))
	r.frame(http2.WindowUpdate, 0, 0, uint32Of(16<<20))
	for i := range streams {
		r.get(uint32(2*i + 1))
	}
	r.flush()
	got := map[uint32]int{}
	all := 0
	for all < streams*size {
		h, p := r.next()
		if h.Type == http2.RSTStream || h.Type == http2.GoAway || h.Type == 255 {
			t.Fatalf("frame %d after %d bytes of %d, %v", h.Type, all, streams*size, got)
		}
		if h.Type == http2.Data {
			all += len(p)
			s.Skip(time.Duration(len(p)) * silence / rate)
			if got[h.Stream] += len(p); got[h.Stream] == http2.DefaultWindow {
				r.frame(http2.WindowUpdate, 0, h.Stream, uint32Of(http2.DefaultWindow)).flush()
			}
		}
	}
}

// TestHTTP2TrickledWindow: a client that has all that was sent, and opens the window byte by byte,
// does not keep min_rate, whenever its bytes come.
func TestHTTP2TrickledWindow(t *testing.T) {
	t.Parallel()
	body := make([]byte, 300<<10)
	for _, row := range []struct {
		name     string
		id, open uint32
	}{{"stream", 1, 0}, {"connection", 0, 1}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, modes.HTTP2,
				conn.Config{Limits: conn.Limits{WriteTimeout: 20 * time.Second, MinRate: 500},
					Handler: func(_ *conn.Request, w *conn.Response) int { w.SetBody(body); return 200 }})
			r := dial2(t, s)
			if row.open == 0 {
				r.frame(http2.WindowUpdate, 0, 0, uint32Of(1<<20))
			} else {
				r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(1<<20))
			}
			r.get(1).flush()
			for got := 0; got < http2.DefaultWindow; {
				h, p := r.next()
				if h.Type == http2.Data {
					got += len(p)
				}
			}
			socket := must.Get(r.Conn.(*net.TCPConn).SyscallConn())(t)
			for range 60 {
				must.Do(t, socket.Control(func(fd uintptr) { // the time that is skipped would do it as well
					_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
				}))
				s.Settle()
				s.Skip(5500 * time.Millisecond) // a little more than a quarter of write_timeout
				s.Settle()
				r.frame(http2.WindowUpdate, 0, row.id, uint32Of(1)).flush()
				if got := r.until(http2.Data, http2.RSTStream, http2.GoAway); got == "RST_STREAM 1 CANCEL" {
					return
				}
			}
			t.Error("the answer still goes on after five minutes")
		})
	}
}
