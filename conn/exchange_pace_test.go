package conn_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestClientThatDoesNotRead costs what the kernel buffers, and only until write_timeout.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const limit = 150 * time.Millisecond
	run(t, func(t *testing.T, m mode) {
		var given atomic.Int64
		endless := readerFunc(func(p []byte) (int, error) {
			given.Add(int64(len(p)))
			return len(p), nil
		})
		s := start(t, m,
			conn.Config{Limits: conn.Limits{WriteTimeout: limit, KeepAliveTimeout: time.Minute},
				Handler: byPath(map[string]conn.Handler{
					"/source": func(_ *conn.Request, w *conn.Response) int {
						w.SetBodyReader(endless, 1<<40)
						return 200
					},
					"/write": func(_ *conn.Request, w *conn.Response) int {
						_, _ = io.Copy(w, endless)
						return 200
					},
					"/small": func(_ *conn.Request, w *conn.Response) int {
						given.Add(1000)
						w.SetBody(noise()[:1000])
						return 200
					},
				})})
		for _, path := range []string{"/source", "/write", "/small"} {
			given.Store(0)
			c := s.DialSmall()
			began := time.Now()
			// pipelined without end: requests are not read ahead of their answers
			if path == "/small" {
				_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
				for {
					if _, err := io.WriteString(c,
						strings.Repeat("GET /small HTTP/1.1\r\nHost: a\r\n\r\n",
							1000)); err != nil {
						break
					}
				}
			} else {
				send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			// Until the kernel's buffers are full it may take any time.
			s.Settle()
			full := time.Now()
			for n := given.Load(); s.Active() > 0 && time.Since(full) < wait.Patience; {
				time.Sleep(time.Millisecond)
				if more := given.Load(); more > n {
					n, full = more, time.Now()
				}
			}
			if d := time.Since(full); d > 8*time.Second || time.Since(began) < limit-10*time.Millisecond {
				t.Errorf("%s: closed after %v, %v behind the last bytes", path, time.Since(began), d)
			}
			s.Idle()
			if n := given.Load(); n > 16<<20 {
				t.Errorf("%s: %d bytes were made for a client that reads none", path, n)
			}
			c.Close()
		}
	}, plain, direct, overTLS)
}

// TestSlowClientsDoNotDelayAGoodOne: heads and bodies that drip in, and readers that do not read,
// 1,000 in all.
func TestSlowClientsDoNotDelayAGoodOne(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		// A loop that waits for a slow client does so until its limit. On a busy machine a good
		// client may wait for seconds, too, but not as long as that.
		const limit = wait.Patience / 2
		s := start(t, m,
			conn.Config{Limits: conn.Limits{HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit,
				KeepAliveTimeout: 1000 * time.Hour},
				Handler: byPath(map[string]conn.Handler{
					"/":    hello,
					"/bad": echoes["/collect"],
					"/large": func(_ *conn.Request, w *conn.Response) int {
						w.SetBody(noise())
						return 200
					},
				})})
		starts := []string{"GET / HTTP/1.1\r\nHost:", post + "Content-Length: 100\r\n\r\nabc",
			chunked + "5;"}
		// the kernel takes more than 2 MiB for each of these, which is a lot of copying
		const n, readers = 1000, 40
		slow := make([]net.Conn, n)
		for i := range slow {
			if i < readers {
				slow[i] = s.DialSmall()
				send(t, slow[i], "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
				continue
			}
			slow[i] = s.Dial()
			send(t, slow[i], starts[i%len(starts)])
		}
		quick := s.Dial()
		worst := time.Duration(0)
		for i := range 200 {
			began := time.Now()
			quick.Do("GET", get)
			worst = max(worst, time.Since(began))
			for j := i; j < n; j += 200 {
				_, _ = io.WriteString(slow[j], "a")
			}
		}
		if worst > limit*9/10 {
			t.Errorf("a good client waited %v", worst)
		}
		wait.Until(t, "slow clients gone", func() bool {
			s.Skip(limit) // one that does not take its answer gets the time once more
			return s.Active() == 1
		})
		quick.Do("GET", get)
		for _, c := range slow {
			c.Close()
		}
	}, plain)
}

// TestLingeringCloseIsBounded in time, in silence and in rate, for clients that go on as if nothing
// was.
func TestLingeringCloseIsBounded(t *testing.T) {
	const limit = 400 * time.Millisecond
	for _, row := range []struct{ every, all, silence, least time.Duration }{
		{0, limit, limit / 2, limit},
		{limit / 20, limit, limit / 2, limit},
		// Longer than the client's kernel takes to acknowledge the answer, 40 ms.
		{time.Hour, wait.Patience, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		restore := conn.SetLingerTime(row.all, row.silence)
		atOnce(t, func(t *testing.T, m mode) {
			s := start(t, m, conn.Config{Handler: hello})
			c := s.Dial()
			// not after the answer, which the server may have given long before it is read here
			began := time.Now()
			if a := c.Do("GET", "BAD\r\n"); a.StatusCode != 400 {
				t.Errorf("%v", a.Response)
			}
			var n int64
			var pause time.Duration // the longest
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for last := began; row.every < time.Hour; time.Sleep(row.every) {
					k, err := c.Conn.Write(noise())
					pause = max(pause, time.Since(last))
					if n += int64(k); err != nil {
						break
					}
					last = time.Now()
				}
			}()
			s.Idle()
			took := time.Since(began)
			<-sent
			least := row.least
			if pause > row.silence/2 { // on a busy machine that is silence, too
				least = row.silence
			}
			within(t, fmt.Sprintf("a client that sends every %v: closed", row.every), began, least)
			// What the kernels hold on both sides comes to some megabytes.
			if most := conn.LingerRate*int64(took)/int64(time.Second) + 16<<20; n > most {
				t.Errorf("%d bytes were taken in %v from a client that was refused", n, took)
			}
			c.Close()
		}, plain, direct)
		restore()
	}
}

// TestLargeBodyThatIsRefused: a client that writes all of its body before it reads sees the answer,
// and until then holds a record and nothing else.
func TestLargeBodyThatIsRefused(t *testing.T) {
	defer conn.SetLingerTime(time.Minute, time.Minute)() // they linger until they are counted
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello, Limits: conn.Limits{MaxBodySize: 1000}})
		const size = 12 << 20 // more than the kernels on both sides hold
		c := s.Dial()
		send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
		piece := string(make([]byte, 1<<20))
		for range size / len(piece) {
			send(t, c, piece)
		}
		if a := c.Answer("POST"); a.StatusCode != 413 || !a.Close {
			t.Errorf("%v", a.Response)
		}
		c.Close()
		s.Idle()

		// They are as cheap as idle ones.
		before := runtime.NumGoroutine()
		var all []*client
		for range 200 {
			c := s.Dial()
			if a := c.Do("POST",
				"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n"); a.StatusCode != 413 {
				t.Errorf("%v", a.Response)
			}
			all = append(all, c)
		}
		s.Settle()
		if n := s.Active(); n != len(all) {
			t.Errorf("%d connections linger, want %d", n, len(all))
		}
		if more := runtime.NumGoroutine() - before; more > 8 {
			t.Errorf("%d goroutines for %d lingering connections", more, len(all))
		}
		for _, c := range all {
			c.Close()
		}
		s.Idle()
	}, http1...)
}
