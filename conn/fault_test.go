package conn_test

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func TestBeyondMaxConnections(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		release := new(loop.Promise[int])
		var waiting atomic.Int32
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxConnections: 3},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				waiting.Add(1)
				_, _ = req.AwaitAny(-1, release)
				return hello(req, resp)
			}})
		var in []*client
		for range 3 {
			c := s.Dial()
			send(t, c, get)
			in = append(in, c)
		}
		s.Settled("all are at work", func(*loop.Loop) bool { return waiting.Load() == 3 })
		// More than are told 503 at a time.
		var wg sync.WaitGroup
		var told atomic.Int32
		for range 300 {
			wg.Go(func() {
				c, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.WriteString(c, get+get)
				got, err := io.ReadAll(c)
				if err == nil && len(got) > 0 {
					if a := parse(t, string(got), "GET")[0]; a.StatusCode != 503 || !a.Close {
						t.Errorf("%v", a.Response)
					}
					told.Add(1)
				}
			})
		}
		wg.Wait()
		if told.Load() < 100 {
			t.Errorf("only %d were told", told.Load())
		}
		if n := s.Active(); n != 3 {
			t.Errorf("%d connections counted", n)
		}
		release.Resolve(0)
		for _, c := range in {
			c.Answer("GET")
			c.Do("GET", get)
			c.Close()
		}
		s.Idle()
		s.Dial().Do("GET", get)
	}, plain, direct)
}

// TestDescriptorExhaustion: who is in is served, who waits is served later.
func TestDescriptorExhaustion(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		in := s.Dial()
		in.Do("GET", get)
		held, block := make(chan struct{}), make(chan struct{})
		must.Do(t, s.Loops.All[0].Post(func() { close(held); <-block }))
		<-held
		var late []*client
		for range 5 {
			c := s.Dial()
			send(t, c, get)
			late = append(late, c)
		}
		var limit unix.Rlimit
		must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE,
			&unix.Rlimit{Cur: 3, Max: limit.Max}))
		close(block)
		for range 50 {
			in.Do("GET", get)
		}
		s.Settle()
		if n := s.Active(); n != 1 {
			t.Errorf("%d connections without descriptors for them", n)
		}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		for _, c := range late {
			if a := c.Answer("GET"); a.StatusCode != 200 {
				t.Error(a.Status)
			}
		}
		if n := strings.Count(s.Log.String(), "new connections wait"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, s.Log)
		}
	}, plain, direct)
}

// TestCutConnections cuts connections at random points of all kinds of requests and answers, in all
// kinds of ways. What must not be left behind is also what TestMain looks for.
func TestCutConnections(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	raws := []string{
		get, get + get + get,
		"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"POST /copy HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" +
			string(noise()[:20_000]) + get,
		"POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunks(noise()[:20_000], 777) + get,
		"POST /collect HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
		"GET /file?300000 HTTP/1.1\r\nHost: a\r\n\r\n" + get,
		"GET /unknown?300000 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /bytes?300000 HTTP/1.0\r\n\r\n",
		"GET /sleep HTTP/1.1\r\nHost: a\r\n\r\n" + get,
		"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n" + get,
		"GET /goexit HTTP/1.1\r\nHost: a\r\n\r\n",
		get + "BAD\r\n" + get,
		strings.Replace(upload(noise()[:60_000]), "/", "/form", 1) + get,
	}
	h := sources(t)
	for _, more := range []map[string]conn.Handler{echoes, failing, {
		"/sleep": func(req *conn.Request, w *conn.Response) int {
			_ = req.Sleep(time.Millisecond)
			return 200
		},
		"/form": func(req *conn.Request, w *conn.Response) int {
			if _, err := req.MultipartForm(10 << 10); err != nil {
				return 400
			}
			return 200
		},
	}} {
		for path, f := range more {
			h[path] = f
		}
	}
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(h)})
		s.Panics.Expect()
		fds := descriptors(t)
		workers, each := 8, 700
		if race.Enabled {
			each = 300
		}
		var wg sync.WaitGroup
		for w := range workers {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			wg.Go(func() {
				for range each {
					cutOne(t, s.Addr, raws[rng.IntN(len(raws))], rng)
				}
			})
		}
		wg.Wait()
		s.Idle()
		s.Settled("threads but the listener's", func(l *loop.Loop) bool { return l.Threads() == 1 })
		if now := descriptors(t); now > fds {
			t.Errorf("%d descriptors, %d before", now, fds)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("temporary files left: %v, %v", left, err)
		}
		s.Dial().Do("GET", get)
	}, plain, direct, several)
}

// cutOne sends some of raw in up to three pieces, reads some of the answer, and leaves.
func cutOne(t *testing.T, addr, raw string, rng *rand.Rand) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	c := nc.(*net.TCPConn)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	raw = raw[:rng.IntN(len(raw)+1)]
	for range rng.IntN(3) {
		n := rng.IntN(len(raw) + 1)
		_, _ = io.WriteString(c, raw[:n])
		raw = raw[n:]
	}
	_, _ = io.WriteString(c, raw)
	switch rng.IntN(4) {
	case 0:
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(2000)) * time.Microsecond))
		_, _ = io.CopyN(io.Discard, c, int64(rng.IntN(100_000)))
	case 1:
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(2000)) * time.Microsecond))
		_, _ = io.Copy(io.Discard, c)
	}
	if rng.IntN(2) == 0 {
		_ = c.SetLinger(0)
	}
}

func descriptors(t *testing.T) int {
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// TestNothingSpins: connections that are half-closed, reset, full, or have input that nobody asks
// for cost no returns of epoll_wait while their handlers wait.
func TestNothingSpins(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var waiting atomic.Int32
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: time.Minute},
			Handler: byPath(map[string]conn.Handler{
				"/": hello,
				"/sleep": func(req *conn.Request, w *conn.Response) int {
					waiting.Add(1)
					req.KeepWaiting(true)
					_ = req.Sleep(4 * time.Second)
					return hello(req, w)
				},
				"/large": func(_ *conn.Request, w *conn.Response) int {
					waiting.Add(1)
					w.SetBody(append(noise(), noise()...))
					return 200
				},
			})})
		ask := func(path, more string) *client {
			c := s.DialSmall()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+more)
			return c
		}
		ask("/sleep", "").CloseWrite()
		ask("/sleep", get) // read ahead with it
		unread := ask("/sleep", "")
		half := ask("/sleep", "")
		gone := ask("/sleep", "")
		ask("/large", "")
		ask("/large", get+get).CloseWrite()
		lost := ask("/large", "")
		ask("/", "")
		partial := ask("/", "GET / HTTP/1.1\r\nHost: a\r\nX: ")
		s.Settled("all are waiting", func(*loop.Loop) bool { return waiting.Load() == 8 })
		s.Settle()
		send(t, unread, get+get)
		half.CloseWrite()
		gone.Reset()
		lost.Reset()
		send(t, partial, "a")
		s.Settle()
		s.Settle()

		var before, after loop.Stats
		s.On(func(l *loop.Loop) { before = l.Stats() })
		time.Sleep(time.Second)
		s.On(func(l *loop.Loop) { after = l.Stats() })
		// Probes of closed windows and the like come to a handful. What spins comes to tens of
		// thousands.
		if n := after.Waits - before.Waits; n > 50 {
			t.Errorf("epoll_wait returned %d times in a second with nothing to do", n)
		}
		if n := after.Resumes - before.Resumes; n > 50 {
			t.Errorf("%d coroutines were resumed with nothing to do", n)
		}
		s.Stop(0)
	}, plain, direct)
}
