package conn_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// from dials from another address of the loopback network.
func from(s *site, ip string) *client {
	s.T.Helper()
	return s.DialBy(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}})
}

// open reports whether the server has not ended its side of a connection.
func open(t *testing.T, c *client) (yes bool) {
	t.Helper()
	const established = 1 // tcp(7), TCP_INFO
	raw, err := c.TCP().SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			yes = must.Get(unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO))(
				t).State == established
		})
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // a client of HTTP/2 closes its side, too
		t.Error(err)
	}
	return yes
}

// TestIdleConnectionsGiveWay: 100 idle connections that fill max_connections keep nobody out, and
// the count stays right.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		const limit, probes = 100, 38
		s := start(t, m,
			conn.Config{Handler: hello,
				Limits: conn.Limits{MaxConnections: limit, KeepAliveTimeout: time.Minute,
					HeaderTimeout: time.Minute}})
		var idle []*client
		for i := range limit {
			c := from(s, "127.0.0.1")
			if i%2 == 0 || m.TLS { // the others never say anything
				c.Do("GET", get)
			}
			idle = append(idle, c)
		}
		s.Settled("all are in", func(*loop.Loop) bool { return s.Active() == limit })
		served := 0
		for range probes {
			c := from(s, "127.0.0.2")
			_, err := io.WriteString(c, get)
			if err == nil {
				if a := answers(t, c, "GET")[0]; a.StatusCode == 200 {
					served++
				}
			}
			c.Close()
		}
		if served != probes {
			t.Errorf("%d of %d probes were served", served, probes)
		}
		s.Settled("no more than the limit", func(*loop.Loop) bool { return s.Active() <= limit })
		closed := 0
		wait.Until(t, "ends of idle connections", func() bool { // one may be on its way
			before := closed
			closed = 0
			for i, c := range idle {
				if open(t, c) {
					continue
				}
				closed++
				if m.Loops == 1 && i >= probes {
					t.Errorf("connection %d was closed before older ones", i)
				}
			}
			return closed > 0 && closed == before
		})
		if closed > probes {
			t.Errorf("%d idle connections were closed for %d probes", closed, probes)
		}
		if n := strings.Count(s.Log.String(), "too many connections"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, s.Log)
		}
	})
}

// TestAtWorkIsNotGivenUp: connections that have requests stay, and newcomers are refused, TLS ones
// by a close at once.
func TestAtWorkIsNotGivenUp(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		release := new(loop.Promise[int])
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxConnections: 3},
			Handler: func(req *conn.Request, w *conn.Response) int {
				_, _ = req.AwaitAny(-1, release)
				return hello(req, w)
			}})
		var busy []*client
		for range 3 {
			c := s.Dial()
			send(t, c, get)
			busy = append(busy, c)
		}
		s.Settle()
		s.Settled("all are at work", func(*loop.Loop) bool { return s.Active() == 3 })
		for range 5 {
			began := time.Now()
			raw := must.Get(net.Dial("tcp", s.Addr))(t)
			_ = raw.SetDeadline(began.Add(wait.Patience))
			if !m.TLS {
				send(t, raw, get)
			}
			got, err := io.ReadAll(raw)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("silence for %v", time.Since(began))
			}
			if !m.TLS && (err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 503 ")) {
				t.Errorf("%q, %v", got, err)
			}
			raw.Close()
		}
		release.Resolve(0)
		for _, c := range busy {
			if a := c.Answer("GET"); a.StatusCode != 200 {
				t.Error(a.Status)
			}
		}
		s.Dial().Do("GET", get)
		s.Settled("nobody is being refused", func(*loop.Loop) bool {
			return conn.Refusing(s.Server) == 0
		})
	})
}

// TestLingeringGivesWay: clients that send without end after an answer do not fill the server.
func TestLingeringGivesWay(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		const limit = 20
		s := start(t, m, conn.Config{Handler: hello, Limits: conn.Limits{MaxConnections: limit}})
		for range limit {
			c := s.Dial()
			if a := c.Do("GET", "BAD\r\n"); a.StatusCode != 400 {
				t.Errorf("%v", a.Response)
			}
			go func() {
				for {
					if _, err := c.Conn.Write(noise()); err != nil {
						return
					}
				}
			}()
		}
		s.Settled("all linger", func(*loop.Loop) bool { return s.Active() == limit })
		for range 2 * limit {
			c := from(s, "127.0.0.2")
			if a := c.Do("GET", get); a.StatusCode != 200 {
				t.Error(a.Status)
			}
		}
	}, plain, direct, several)
}

// TestCrowd: many clients for few places, on several loops, with connections that end in all kinds
// of ways. A client that is let in is served, the number stays about the limit, and nothing is left
// in the end.
func TestCrowd(t *testing.T) {
	defer conn.SetLingerTime(50*time.Millisecond, 50*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		const limit, workers, each = 20, 16, 150
		s := start(t, m,
			conn.Config{Limits: conn.Limits{MaxConnections: limit, MaxConnectionsPerAddress: 1000},
				Handler: hello})
		var wg sync.WaitGroup
		var served, most atomic.Int64
		for w := range workers {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			wg.Go(func() {
				var kept []net.Conn
				for range each {
					c, err := net.Dial("tcp", s.Addr)
					if err != nil {
						t.Error(err)
						return
					}
					_ = c.SetDeadline(time.Now().Add(10 * time.Second))
					br := bufio.NewReader(c)
					for range rng.IntN(3) {
						raw := get
						if rng.IntN(5) == 0 {
							raw = "BAD\r\n"
						}
						if _, err := io.WriteString(c, raw); err != nil {
							break // given up
						}
						resp, err := http.ReadResponse(br, nil)
						if err != nil {
							if errors.Is(err, os.ErrDeadlineExceeded) {
								t.Error("silence")
							}
							break
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						if resp.StatusCode == 200 {
							served.Add(1)
						}
					}
					if n := int64(s.Active()); n > most.Load() {
						most.Store(n)
					}
					switch rng.IntN(4) {
					case 0:
						kept = append(kept, c)
						continue
					case 1:
						_ = c.(*net.TCPConn).SetLinger(0)
					}
					c.Close()
				}
				for _, c := range kept {
					c.Close()
				}
			})
		}
		wg.Wait()
		s.Idle()
		// One for each loop that is just accepting, and what other loops have been asked for.
		over := int64(m.Loops)
		if m.Loops > 1 {
			over += conn.MaxOwed
		}
		if n := most.Load(); n > limit+over {
			t.Errorf("%d connections at a time, the limit is %d", n, limit)
		}
		if n := served.Load(); n < workers*each/4 {
			t.Errorf("only %d requests were served", n)
		}
		if n := conn.Networks(s.Server); n != 0 {
			t.Errorf("%d networks are left", n)
		}
		for _, l := range s.Loops.All {
			if _, ok := l.Layer().IdleSince(); ok {
				t.Error("a connection is still taken to be idle")
			}
		}
	}, plain, direct, several)
}

// TestMaxConnectionsPerAddress counts right, in whatever way connections end.
func TestMaxConnectionsPerAddress(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		const limit = 3
		block := make(chan struct{})
		defer close(block)
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxConnectionsPerAddress: limit},
			Handler: byPath(map[string]conn.Handler{
				"/":      hello,
				"/panic": func(*conn.Request, *conn.Response) int { panic("on purpose") },
				"/hijack": func(_ *conn.Request, w *conn.Response) int {
					c, _, err := w.Hijack()
					if err == nil {
						_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
					}
					return 0
				},
				"/sleep": func(req *conn.Request, w *conn.Response) int {
					_ = req.Sleep(time.Minute)
					return 200
				},
				// the exchange is abandoned
				"/await": func(req *conn.Request, w *conn.Response) int {
					_ = req.Await(time.Millisecond, func(context.Context) error { <-block; return nil })
					return 200
				},
			})})
		s.Panics.Expect()
		line := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
		ends := map[string]func(c *client){
			"closed":   func(c *client) { c.Do("GET", get); c.Close() },
			"reset":    func(c *client) { c.Do("GET", get); c.Reset() },
			"unused":   func(c *client) { c.Close() },
			"rejected": func(c *client) { c.Do("GET", "BAD\r\n"); c.Close() },
			"panic":    func(c *client) { c.Do("GET", line("/panic")); c.Close() },
			"hijacked": func(c *client) {
				send(t, c, line("/hijack"))
				_, _ = io.Copy(io.Discard, c)
			},
			"left":  func(c *client) { send(t, c, line("/sleep")); c.Close() },
			"await": func(c *client) { c.Do("GET", line("/await")); c.Close() },
			"last":  func(c *client) { c.Do("GET", "GET / HTTP/1.0\r\n\r\n"); c.Ends() },
		}
		for name, end := range ends {
			var in []*client
			for range limit {
				c := from(s, "127.0.0.1")
				in = append(in, c)
			}
			s.Settle()
			s.Settled(name+": all are in", func(*loop.Loop) bool { return s.Active() == limit })
			extra := from(s, "127.0.0.1") // an idle one makes room
			if got := extra.Do("GET", get); got.StatusCode != 200 {
				t.Errorf("%s: one too many gets %d", name, got.StatusCode)
			}
			s.Settled(name+": one has given way", func(*loop.Loop) bool { return s.Active() == limit })
			extra.Close()
			s.Settled(name+": the newcomer has left", func(*loop.Loop) bool { return s.Active() == limit-1 })
			in = slices.DeleteFunc(in, func(c *client) bool { return !open(t, c) })
			if len(in) != limit-1 {
				t.Errorf("%s: %d of %d are open", name, len(in), limit)
			}
			other := from(s, "127.0.0.2") // which is not concerned
			other.Do("GET", get)
			if n := conn.Networks(s.Server); n > 2 {
				t.Errorf("%s: %d networks", name, n)
			}
			for _, c := range in {
				end(c)
			}
			other.Close()
			s.Idle()
			if n := conn.Networks(s.Server); n != 0 {
				t.Errorf("%s: %d networks", name, n)
			}
		}
		for range limit {
			from(s, "127.0.0.1").Do("GET", get)
		}
		s.Stop(time.Second)
		if n := conn.Networks(s.Server); n != 0 {
			t.Errorf("%d networks are left", n)
		}
	}, http1...)
}

// TestDescriptorsRunOut: without a free descriptor, idle connections are given up for newcomers;
// where there are none, a newcomer is told 503 at once, and TLS ones are closed.
func TestDescriptorsRunOut(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		release := new(loop.Promise[int])
		var waiting atomic.Int32
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/": hello,
			"/wait": func(req *conn.Request, w *conn.Response) int {
				waiting.Add(1)
				_, _ = req.AwaitAny(-1, release)
				return hello(req, w)
			},
		})})
		const n = 5
		asked := 0
		var idle []*client
		for range n {
			c := s.Dial()
			c.Do("GET", get)
			idle = append(idle, c)
		}
		at := must.Get(sysio.Sockaddr(netip.MustParseAddrPort(s.Addr)))(t)
		// made while there are descriptors; Go's own net package needs one more for each
		var clients []int
		for range 20 * n {
			fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
			t.Cleanup(func() { unix.Close(fd) })
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
				&unix.Timeval{Sec: int64(wait.Patience / time.Second)})
			clients = append(clients, fd)
		}
		free := leak.Exhaust(t)
		ask := func(raw string) (string, error) {
			fd := clients[0]
			clients = clients[1:]
			must.Do(t, unix.Connect(fd, at))
			if !m.TLS {
				must.Get(unix.Write(fd, []byte(raw)))(t)
			}
			if strings.Contains(raw, "/wait") {
				return "", nil
			}
			var buf [4096]byte
			k, err := unix.Read(fd, buf[:])
			return string(buf[:max(k, 0)]), err
		}
		// There may be more than n that have a place: what earlier tests have left is still being
		// closed.
		occupy := func() {
			for some := true; some; {
				_, _ = ask("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
				asked++
				s.Settled("it is at work", func(l *loop.Loop) bool {
					return int(waiting.Load()) == asked
				})
				s.On(func(l *loop.Loop) { _, some = l.Layer().IdleSince() })
			}
		}
		if !m.TLS {
			if occupy(); asked < n {
				t.Errorf("%d have taken the places of %d", asked, n)
			}
		} else {
			s.On(func(l *loop.Loop) {
				for l.Layer().EndIdle() {
				}
			})
			free()
			free = leak.Exhaust(t)
		}
		for refused := 0; refused < 3; {
			got, err := ask(get)
			switch {
			case err == unix.EAGAIN:
				t.Fatal("silence")
			case m.TLS || strings.HasPrefix(got, "HTTP/1.1 503 "):
				refused++
			case strings.HasPrefix(got, "HTTP/1.1 200 "):
				occupy()
			default:
				t.Fatalf("%q, %v", got, err)
			}
		}
		free()
		s.Settle() // a turn that still refuses would take the next one as well
		release.Resolve(0)
		s.Dial().Do("GET", get)
		for _, c := range idle {
			c.Close()
		}
	}, plain, direct, overTLS)
}

// TestConnectionSize: what an idle connection costs more than this is the kernel's.
func TestConnectionSize(t *testing.T) {
	ci.Without(t, invariants.Enabled, "records have an owner")
	if n := conn.ConnectionSize; n > 192 {
		t.Errorf(
			"a connection's record has %d bytes; up to 192 are one size class of the allocator", n)
	}
}
