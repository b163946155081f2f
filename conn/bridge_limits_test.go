package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestBridgeMemoryIsBounded: a handler that is quicker than its client does not fill the memory,
// nor does a client that is quicker than its handler.
func TestBridgeMemoryIsBounded(t *testing.T) {
	const clients, perClient = 16, 400 << 10
	// more than two kernels take, and what a test may hold if nothing bounds it
	const perHandler = 32 << 20
	run(t, func(t *testing.T, m mode) {
		release := make(chan struct{})
		h := func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				r.Body.Read(make([]byte, 1))
				<-release
				return
			}
			piece := make([]byte, 4<<10)
			for range perHandler / len(piece) {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}
		s := start(t, m,
			conn.Config{Handler: conn.HTTP(http.HandlerFunc(h)), Limits: conn.Limits{MaxBodySize: -1}})
		for _, raw := range []string{get,
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"} {
			before := heap()
			var all []*client
			var sending sync.WaitGroup
			for range clients {
				c := s.Dial()
				all = append(all, c)
				send(t, c, raw)
				if raw != get {
					// Until nothing is taken any more.
					sending.Go(func() {
						for piece := make([]byte, 64<<10); ; {
							_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
							if _, err := c.Write(piece); err != nil {
								return
							}
						}
					})
				}
			}
			sending.Wait()
			// On a busy machine the kernels may not be full yet, and what handlers still write comes on
			// top of what is held.
			wait.Until(t, fmt.Sprintf("%.4s: at most %d KiB for each client", raw, perClient>>10),
				func() bool {
					stuck(s)
					return int64(heap())-int64(before) <= clients*perClient
				})
			for _, c := range all {
				c.Reset()
			}
			if raw != get {
				close(release)
			}
			s.Idle()
		}
	}, plain, overTLS)
}

// stuck waits until the loops have nothing to do.
func stuck(s *site) {
	s.T.Helper()
	for last, now := int64(-1), int64(0); last != now; time.Sleep(30 * time.Millisecond) {
		last, now = now, 0
		for _, l := range s.Loops.All {
			done := make(chan int64)
			_ = l.Post(func() { done <- l.Stats().Resumes })
			now += <-done
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// TestBridgeSlowClient: write_timeout ends the writes of a handler whose client takes nothing, and
// body_timeout the reads of one whose client sends nothing.
func TestBridgeSlowClient(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		t.Parallel()
		type end struct {
			err  error
			ctx  context.Context
			last time.Time // when the last write has begun
		}
		ended := make(chan end, 1)
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: limit, BodyTimeout: limit},
			Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				last := time.Now()
				for err == nil {
					last = time.Now()
					_, err = w.Write(make([]byte, 10<<10))
				}
				ended <- end{err, r.Context(), last}
				w.WriteHeader(http.StatusTeapot)
			}))})
		began := time.Now()
		c := s.Dial()
		_ = c.TCP().SetReadBuffer(4 << 10)
		send(t, c, get)
		e := <-ended
		if d := time.Since(began); d < limit {
			t.Errorf("writing after %v, want %v", d, limit)
		}
		within(t, "the last write", e.last, 0) // until then the kernel's buffers may fill slowly
		<-e.ctx.Done()
		c.Close()
		s.Idle()

		began = time.Now()
		c = s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
		if e = <-ended; !errors.Is(e.err, conn.ErrBodyTimeout) ||
			!errors.Is(e.err, os.ErrDeadlineExceeded) {
			t.Errorf("reading: %v", e.err)
		}
		within(t, "reading", began, limit)
		if a := c.Answer("POST"); a.StatusCode != http.StatusTeapot || a.Close == m.HTTP2 {
			t.Errorf("%v", a.Response)
		}
		c.Ends()
	})
}

// TestBridgeDeadlines: those of a handler take the place of the server's.
func TestBridgeDeadlines(t *testing.T) {
	t.Parallel()
	const limit, server = 100 * time.Millisecond, wait.Patience
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		t.Parallel()
		ended := make(chan error, 1)
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: server, BodyTimeout: server},
			Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				check := func(err error) {
					if err != nil {
						t.Error(err)
					}
				}
				switch r.URL.Path {
				case "/read": // a deadline, none, and the past
					began := time.Now()
					check(rc.SetReadDeadline(began.Add(limit)))
					_, err := r.Body.Read(make([]byte, 10))
					within(t, "read", began, limit)
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("read: %v", err)
					}
					ended <- nil
					if r.ContentLength < 0 {
						return
					}
					check(rc.SetReadDeadline(time.Time{}))
					body, err := io.ReadAll(r.Body)
					fmt.Fprint(w, string(body), err)
				case "/write":
					check(rc.SetWriteDeadline(time.Now().Add(limit)))
					var err error
					for err == nil {
						_, err = w.Write(make([]byte, 10<<10))
					}
					ended <- err
				}
			}))})
		c := s.Dial()
		send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		<-ended
		s.Skip(2 * server)
		if a := c.Do("POST", "12345"); a.Text != "12345<nil>" {
			t.Errorf("%q", a.Text)
		}
		send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		<-ended
		c.Close()

		began := time.Now()
		c = s.Dial()
		_ = c.TCP().SetReadBuffer(4 << 10)
		send(t, c, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		within(t, "write", began, limit)
		if _, err := io.ReadAll(c); err == nil && !m.HTTP2 { // there it is the stream's
			t.Error("the answer has an end")
		}
		s.Idle()
	})
}

// TestBridgePassedDeadlines: they hold at once, even where nothing would wait.
func TestBridgePassedDeadlines(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		ended := make(chan struct{}, 1)
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			rc := http.NewResponseController(w)
			passed := time.Now().Add(-time.Second)
			if err := errors.Join(rc.SetReadDeadline(passed),
				rc.SetWriteDeadline(passed)); err != nil {
				t.Error(err)
			}
			if n, err := r.Body.Read(make([]byte, 10)); n != 0 ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %d, %v", n, err)
			}
			var err error
			for n := 0; err == nil && n < 1000; n++ {
				_, err = w.Write(make([]byte, 10<<10))
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
			ended <- struct{}{}
		}))})
		c := s.Dial()
		send(t, c,
			"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
		if got, _ := io.ReadAll(c.R); len(got) > 0 {
			t.Errorf("%q", clip(string(got)))
		}
		<-ended
	})
}

// TestBridgeDeadlineEndsAWait: of a read that has begun, from another goroutine.
func TestBridgeDeadlineEndsAWait(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, ended := make(chan func(time.Time) error, 1), make(chan error, 1)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			entered <- http.NewResponseController(w).SetReadDeadline
			_, err := io.ReadAll(r.Body)
			ended <- err
		}))})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		set := <-entered
		stuck(s)
		if err := set(time.Now()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestBridgeBodyTooLarge: max_body_size holds for chunked bodies, too.
func TestBridgeBodyTooLarge(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			http.Error(w, fmt.Sprint(err == conn.ErrBodyTooLarge), http.StatusTeapot)
		})
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: 100}, Handler: mount(h)})
		c := s.Dial()
		const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		a := c.Do("POST", head+"c8\r\n"+strings.Repeat("x", 200)+"\r\n0\r\n\r\n")
		if a.StatusCode != http.StatusTeapot || a.Text != "true\n" || !a.Close {
			t.Errorf("%v %q", a.Response, a.Text)
		}
		c.Ends()
	}, http1...)
}

// TestBridgeDeadlineWhileTheThreadLooks: a deadline counts, whatever the thread is doing when it is
// set.
func TestBridgeDeadlineWhileTheThreadLooks(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{
			Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ended := make(chan error, 1)
				go func() {
					_, err := r.Body.Read(make([]byte, 1))
					ended <- err
				}()
				rc := http.NewResponseController(w)
				for range rand.IntN(100) { // each makes the thread look
					_ = rc.SetReadDeadline(time.Now().Add(30 * time.Second))
				}
				_ = rc.SetReadDeadline(time.Now())
				began := time.Now()
				if err := <-ended; time.Since(began) > 20*time.Second ||
					!errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
			}))})
		c := s.Dial()
		for range 2000 {
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			if c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"); t.Failed() {
				return
			}
			c.Send("1")
		}
	}, plain, direct)
}
