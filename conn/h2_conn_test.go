package conn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// link2 lets f have the stream of a WebSocket, whose client has sent nothing more and takes window
// bytes, and returns the client when f has returned, with the handler still running.
func link2(t *testing.T, window uint32, f func(th *loop.Thread, l conn.HijackedConn)) *raw2 {
	t.Helper()
	done, release := make(chan struct{}), make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		c, _, err := w.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
		f(req.Thread, conn.HijackedOf(c))
		close(done)
		_, _ = req.AwaitAny(-1, loop.FromChan(release))
		return 0
	}})
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0,
		string(http2.AppendSetting(nil, http2.InitialWindowSize, window)))
	r.head(1, 0, ":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority", "a",
		":protocol", "websocket").flush()
	select {
	case <-done:
	case <-time.After(wait.Patience):
		t.Fatal("the handler waits")
	}
	close(release)
	return r
}

// TestStreamConnLimits: reads and writes of a stream that was taken over keep its deadlines, an
// earlier one that is set meanwhile too.
func TestStreamConnLimits(t *testing.T) {
	t.Parallel()
	const window = 1000
	r := link2(t, window, func(th *loop.Thread, l conn.HijackedConn) {
		past, soon := time.Now().Add(-time.Second), 5*time.Millisecond
		l.SetNoWait(true)
		if n, err := l.Read(make([]byte, 1)); n != 0 || err != stream.ErrWouldBlock {
			t.Error(n, err)
		}
		l.SetNoWait(false)
		if err := l.AwaitRead(soon); err != loop.ErrDeadlineExceeded {
			t.Error(err)
		}
		for _, now := range []bool{true, false} {
			by := past
			if !now {
				by = time.Now().Add(time.Hour)
				th.Go(func(th *loop.Thread) error {
					_ = th.Sleep(soon)
					return l.SetReadDeadline(past)
				})
			}
			_ = l.SetReadDeadline(by)
			if n, err := l.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(n, err)
			}
		}
		_ = l.SetWriteDeadline(time.Now().Add(soon))
		if n, err := l.Write(make([]byte, window+1)); n != window ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
		if n, err := l.Write(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
		_ = l.SetDeadline(time.Time{})
		if n, err := l.TryWrite(make([]byte, 1)); n != 0 || err != stream.ErrWouldBlock {
			t.Error(n, err)
		}
		l.ResetOnClose()
	})
	if got := r.until(http2.RSTStream); got != "RST_STREAM 1 CANCEL" {
		t.Error(got)
	}
}

// TestStreamConnThreadFails: reads and writes go on after a thread of the handler's has failed, as
// those of a socket do.
func TestStreamConnThreadFails(t *testing.T) {
	t.Parallel()
	const window = 1000
	link2(t, window, func(th *loop.Thread, l conn.HijackedConn) {
		failure := errors.New("failed")
		th.Go(func(*loop.Thread) error { return failure })
		if err := th.Sleep(time.Hour); err != loop.ErrCanceled {
			t.Error(err)
		}
		soon := 5 * time.Millisecond
		if err := l.AwaitRead(soon); err != loop.ErrDeadlineExceeded {
			t.Error(err)
		}
		_ = l.SetDeadline(time.Now().Add(soon))
		if _, err := l.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = l.SetDeadline(time.Now().Add(soon))
		if n, err := l.Write(make([]byte, window+1)); n != window ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
		if err := th.Sleep(soon); err != loop.ErrCanceled {
			t.Error(err)
		}
		if err := th.Join(); err != failure {
			t.Error(err)
		}
	})
}

// TestStreamConnThreads: one thread may read while another one writes, and not two at once; a close
// ends both.
func TestStreamConnThreads(t *testing.T) {
	t.Parallel()
	r := link2(t, 0, func(th *loop.Thread, l conn.HijackedConn) {
		read := loop.Go(th, func(*loop.Thread) (int, error) { return l.Read(make([]byte, 1)) })
		write := loop.Go(th, func(*loop.Thread) (int, error) { return l.Write([]byte("x")) })
		again := loop.Go(th, func(*loop.Thread) (int, error) { return l.Read(make([]byte, 1)) })
		also := loop.Go(th, func(*loop.Thread) (int, error) { return l.Write([]byte("x")) })
		for _, p := range []*loop.Promise[int]{again, also} {
			if _, err := p.Await(th, wait.Patience); !errors.Is(err, loop.ErrAwaited) {
				t.Error(err)
			}
		}
		if read.Ready() || write.Ready() {
			t.Error("the first ones do not wait")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, p := range []*loop.Promise[int]{read, write} {
			if n, err := p.Await(th, wait.Patience); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Error(n, err)
			}
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	// what was written is lost
	if got := r.until(http2.RSTStream, http2.Data); got != "RST_STREAM 1 CANCEL" {
		t.Error(got)
	}
}

// TestStreamConnDropped: a write whose bytes another thread drops has not succeeded, whether the
// stream is closed then or not.
func TestStreamConnDropped(t *testing.T) {
	t.Parallel()
	for _, window := range []int{0, 3} {
		for _, closes := range []bool{false, true} {
			r := link2(t, uint32(window), func(th *loop.Thread, l conn.HijackedConn) {
				write := loop.Go(th, func(*loop.Thread) (int, error) { return l.Write([]byte("hello")) })
				_ = th.Sleep(time.Millisecond)
				if write.Ready() {
					t.Error("the write does not wait")
				}
				holder := l.(interface{ Hold(bool) })
				holder.Hold(true)
				holder.Hold(false)
				want := io.ErrShortWrite
				if closes {
					want = net.ErrClosed
					_ = l.Close()
				} else {
					_ = l.SetWriteDeadline(time.Now().Add(time.Hour)) // it looks again
				}
				if n, err := write.Await(th, wait.Patience); n != window || !errors.Is(err, want) {
					t.Errorf("window %d, closes %t: %d, %v, want %d, %v", window, closes, n, err, window, want)
				}
			})
			r.until(http2.RSTStream)
		}
	}
}

// TestStreamConnHalves: each side may end its half, and the other half goes on.
func TestStreamConnHalves(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		c, _, err := w.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\nlast")
		if err := conn.HijackedOf(c).CloseWrite(); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		text, err := io.ReadAll(c)
		got <- string(text)
		if err != nil {
			t.Error(err)
		}
		return 0
	}})
	r := dial2(t, s)
	r.head(1, 0, ":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority", "a",
		":protocol", "websocket").flush()
	r.until(http2.Data)
	r.frame(http2.Data, 0, 1, "more").frame(http2.Data, http2.EndStream, 1, ".").flush()
	if text := <-got; text != "more." {
		t.Error(text)
	}
	s.Settled("no streams", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == 0 })
}

// TestStreamConnAfterwards: what a handler has left to others is closed when it returns, and knows
// nothing of the request that takes its place.
func TestStreamConnAfterwards(t *testing.T) {
	t.Parallel()
	var kept net.Conn
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		c, _, err := w.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		_, _ = io.WriteString(c, "HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 101 S\r\n\r\n")
		kept = c
		return 0
	}})
	r := dial2(t, s)
	r.head(1, 0, ":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority", "a",
		":protocol", "websocket").flush()
	if first, last := r.until(http2.Headers), r.until(http2.Headers); first != "HEADERS 1 103" ||
		last != "HEADERS 1 200" {
		t.Error(first, last)
	}
	r.until(http2.Data) // the end of the stream
	s.Settled("no streams", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == 0 })
	s.On(func(*loop.Loop) {
		if _, err := kept.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := kept.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := kept.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		l := conn.HijackedOf(kept)
		if _, err := l.TryWrite([]byte("x")); !errors.Is(err, net.ErrClosed) || l.Progress() != 0 {
			t.Error(err, l.Progress())
		}
		if got := kept.RemoteAddr().String(); got != r.LocalAddr().String() {
			t.Error(got)
		}
	})
}

// oneRun is a Keeper that ends the connection at once.
type oneRun struct{}

func (oneRun) Run(*loop.Thread) (time.Duration, bool) { return 0, false }
func (oneRun) End(*loop.Thread)                       {}

// TestStreamConnLetsGo: a stream that waits for the next request holds nothing of one whose handler
// has taken it over, whether the handler has handed it on or not.
func TestStreamConnLetsGo(t *testing.T) {
	t.Parallel()
	freed := make(chan string, 2)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		path := req.Path()
		runtime.SetFinalizer(req.Context(), func(context.Context) { freed <- path })
		c, _, err := w.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
		if path == "/handed" {
			if err := w.Layer().HandOver(oneRun{}); err != nil {
				t.Error(err)
			}
		}
		return 0
	}})
	r := dial2(t, s)
	for i, path := range []string{"/hijacked", "/handed"} {
		r.head(uint32(1+2*i), 0, ":method", "CONNECT", ":scheme", "http", ":path", path,
			":authority", "a", ":protocol", "websocket").flush()
		r.until(http2.Data) // the end of the stream
		s.Settled("no streams", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == 0 })
		for end := time.Now().Add(10 * time.Second); len(freed) == 0; runtime.GC() {
			if time.Now().After(end) {
				t.Fatal("the context is held: ", path)
			}
		}
		<-freed
	}
}
