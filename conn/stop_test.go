package conn_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStopUnderLoad: every request whose bytes were sent before the stop is answered, those of a
// pipeline and those of connections that were not accepted yet too, and then the loops end, long
// before the grace period does.
func TestStopUnderLoad(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a forced EAGAIN hides what was sent from the last read")
	h := byPath(map[string]conn.Handler{"/": hello,
		"/sleep": func(req *conn.Request, w *conn.Response) int {
			if err := req.Sleep(5 * time.Millisecond); err != nil {
				return 500
			}
			return hello(req, w)
		}})
	run(t, func(t *testing.T, m mode) {
		for round := range 5 {
			s := start(t, m, conn.Config{Handler: h})
			var stopping atomic.Bool
			var served atomic.Int32
			var wg sync.WaitGroup
			for i := range 24 {
				sleep := "GET /sleep HTTP/1.1\r\nHost: a\r\n\r\n"
				raw := []string{get, sleep, strings.Repeat(get, 20), get + sleep + get}[i%4]
				n := strings.Count(raw, "GET")
				again := i%3 > 0 // the others connect for each
				wg.Go(func() {
					var c *client
					for !stopping.Load() {
						if c == nil {
							nc, err := net.Dial("tcp", s.Addr)
							if err != nil {
								return // the listener has gone
							}
							c = server.NewClient(t, nc)
							defer nc.Close()
						}
						_, err := c.Write([]byte(raw))
						if stopping.Load() {
							return // too late to be sure
						}
						if err != nil {
							t.Errorf("write before the stop: %v", err)
							return
						}
						_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
						for k := range n {
							resp, err := http.ReadResponse(c.R, nil)
							if err != nil {
								t.Errorf("answer %d of %d: %v", k+1, n, err)
								return
							}
							if resp.StatusCode != 200 || resp.Close && k < n-1 {
								t.Errorf("answer %d of %d: %s, close %v", k+1, n, resp.Status,
									resp.Close)
								return
							}
							_, _ = c.R.Discard(int(resp.ContentLength))
							served.Add(1)
							if resp.Close {
								return
							}
						}
						if !again {
							c.Close()
							c = nil
						}
					}
				})
			}
			for until := int32(100 * (1 + round)); served.Load() < until; {
				time.Sleep(time.Millisecond)
			}
			stopping.Store(true)
			began := time.Now()
			s.Stop(2 * wait.Patience)
			if d := time.Since(began); d > wait.Patience/2 {
				t.Errorf("the stop took %v", d)
			}
			wg.Wait()
		}
	}, plain, direct, several)
}

// TestStopDoesNotWaitForTheSilent: connections without a request, also those that nobody has
// accepted yet.
func TestStopDoesNotWaitForTheSilent(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello,
			Limits: conn.Limits{HeaderTimeout: 2 * wait.Patience, KeepAliveTimeout: 2 * wait.Patience}})
		c := s.Dial()
		c.Do("GET", get)
		s.Dial()
		s.Settle()
		// The loop is held up twice: the second time with the stop behind, in the same turn, so
		// that the listener's last look comes before any other.
		began := time.Now()
		first, held, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
		for _, f := range []func(){func() { <-first }, func() { close(held); <-second }} {
			must.Do(t, s.Loops.All[0].Post(f))
		}
		s.Loops.All[0].Stop(2 * wait.Patience)
		close(first)
		<-held
		s.DialSmall()
		last := s.DialSmall()
		if !m.TLS {
			send(t, last, get)
		}
		close(second)
		s.Stop(2 * wait.Patience)
		if d := time.Since(began); d > wait.Patience/2 {
			t.Errorf("the stop took %v", d)
		}
		if !m.TLS && !invariants.Enabled {
			if a := last.Answer("GET"); a.StatusCode != 200 || !a.Close {
				t.Errorf("%v", a.Response)
			}
			last.Ends()
		}
		c.Ends()
	}, plain, direct, overTLS)
}

// TestStopKillsAfterTheGracePeriod, and says so by the connection's end alone.
func TestStopKillsAfterTheGracePeriod(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var ended sync.WaitGroup
		ended.Add(3)
		entered := make(chan struct{}, 3)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			req.Defer(ended.Done)
			entered <- struct{}{}
			for {
				func() {
					defer func() { _ = recover() }()
					_ = req.Sleep(time.Minute)
				}()
			}
		}})
		for range 3 {
			send(t, s.Dial(), get)
			<-entered
		}
		began := time.Now()
		s.Stop(50 * time.Millisecond)
		ended.Wait()
		within(t, fmt.Sprint(m.Name, ": stopped"), began, 50*time.Millisecond)
	}, plain, direct, overTLS)
}

// TestStopLeavesWhoDoesNotRead: a connection that is being closed, and whose client does not take
// its answer, holds up no stop.
func TestStopLeavesWhoDoesNotRead(t *testing.T) {
	// A stop lets a connection linger for a tenth of the silence.
	defer conn.SetLingerTime(2*wait.Patience, wait.Patience/30)()
	run(t, func(t *testing.T, m mode) {
		answered := make(chan struct{}, 1)
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: 2 * wait.Patience},
			Handler: func(req *conn.Request, w *conn.Response) int {
				w.Header().Set("Connection", "close")
				// more than a small window, and no more than the kernel takes
				w.SetBody(noise()[:200_000])
				req.Defer(func() { answered <- struct{}{} })
				return 200
			}})
		send(t, s.DialSmall(), get)
		<-answered
		s.Settle()
		began := time.Now()
		s.Stop(2 * wait.Patience)
		if d := time.Since(began); d > wait.Patience/2 {
			t.Errorf("the stop took %v", d)
		}
	}, plain, direct)
}

// TestStopEndsHandshakes: a client in the middle of its handshake, however busy, holds up no stop.
func TestStopEndsHandshakes(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello,
			Limits: conn.Limits{HeaderTimeout: 2 * wait.Patience, KeepAliveTimeout: 2 * wait.Patience}})
		c := s.Dial().TCP()
		send(t, c, "\x16\x03\x01\x02\x00\x01") // the beginning of a ClientHello
		s.Settle()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for end := time.Now().Add(wait.Patience); time.Now().Before(end); {
				if _, err := c.Write([]byte{0}); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		began := time.Now()
		s.Stop(2 * wait.Patience)
		if took := time.Since(began); took > wait.Patience/2 {
			t.Errorf("stopped after %v", took)
		}
		<-ended
	}, overTLS)
}
