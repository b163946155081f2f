package proxy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/wait"
)

// fails are upstreams that each fail in one way, by the name of that in `retry`.
var fails = map[string]func(*originConn){
	"cut":       func(p *originConn) { p.request() },
	"timeout":   func(p *originConn) { p.request(); p.drain() },
	"malformed": always("HTTP/1.1 200 OK\r\nno field\r\n\r\n"),
	"502":       always("HTTP/1.1 502 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"503":       always("HTTP/1.1 503 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"504":       always("HTTP/1.1 504 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"500":       always("HTTP/1.1 500 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"429":       always("HTTP/1.1 429 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"404":       always("HTTP/1.1 404 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
	"403":       always("HTTP/1.1 403 x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
}

// bare is hello for one request.
var bare = func(p *originConn) {
	if req := p.request(); req != nil {
		body := make([]byte, 16)
		n, _ := req.Body.Read(body)
		p.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", 5+n,
			"hello"+string(body[:n]))
	}
}

// TestRetry: a request goes to another upstream for the causes of `retry` alone, with its body, if
// its method may be repeated.
func TestRetry(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) { testRetry(t, m, fails, bare, nil) }, modes.Direct,
		modes.HTTP2)
}

// TestHTTP2Retry is TestRetry with upstreams of HTTP/2.
func TestHTTP2Retry(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) { testRetry(t, m, fails2, bare2, version2) },
		modes.Direct, modes.HTTP2)
}

// testRetry has an upstream that fails, and a good one, with settings that are changed.
func testRetry(
	t *testing.T, m modes.Mode, fails map[string]func(*originConn), bare func(*originConn),
	change func(*proxy.Settings),
) {
	plain := map[string]int{"cut": 502, "timeout": 504, "malformed": 502}
	for _, cause := range []string{"403", "404", "429", "500", "502", "503", "504"} {
		plain[cause], _ = strconv.Atoi(cause)
	}
	for cause, script := range fails {
		for _, tt := range []struct {
			line, body string
			retry      []string
			asked      bool // the second one
		}{
			{"GET /", "", []string{cause}, true},
			{"PUT /", "body", []string{cause}, true},
			{"POST /", "body", []string{cause}, false},
			{"FOO /", "", []string{cause}, false},
			{"GET /", "", others(cause), false},
			{"GET /", "", nil, false},
		} {
			t.Run(fmt.Sprint(cause, " ", tt.line, " ", tt.retry), func(t *testing.T) {
				t.Parallel()
				bad, good := start(t, script), start(t, bare)
				f := serve(t, m, "/", []string{bad.addr, good.addr}, func(s *proxy.Settings) {
					if change != nil {
						change(s)
					}
					s.Retry, s.FirstByteTimeout = tt.retry, wait.Patience
				})
				fields := ""
				if tt.body != "" {
					fields = "Content-Length: 4\r\n"
				}
				var silent []*origin
				if cause == "timeout" {
					silent = append(silent, bad)
				}
				g := f.patiently(tt.line, fields, tt.body, wait.Patience+time.Second, silent...)
				want := plain[cause]
				if tt.asked {
					want = 200
				}
				if strings.HasPrefix(tt.line, "FOO") && g.status == 501 {
					t.Skip("the server knows no such method")
				}
				if g.status != want || tt.asked && g.body != "hello"+tt.body ||
					(good.accepted.Load() > 0) != tt.asked || bad.accepted.Load() != 1 {
					t.Errorf("%d %q, %d and %d connections", g.status, g.body, bad.accepted.Load(),
						good.accepted.Load())
				}
				if told := strings.Contains(f.log.String(), "another upstream is asked"); told != tt.asked {
					t.Error(f.log.String())
				}
			})
		}
	}
}

// others are the causes without one.
func others(cause string) (all []string) {
	for _, c := range []string{"connect", "cut", "timeout", "malformed", "403", "404", "429", "500",
		"502", "503", "504"} {
		if c != cause {
			all = append(all, c)
		}
	}
	return all
}

// TestRetryConnect: without that cause, an address that cannot be reached is an error.
func TestRetryConnect(t *testing.T) { modes.Run(t, testRetryConnect, modes.Direct, modes.HTTP2) }

func testRetryConnect(t *testing.T, m modes.Mode) {
	good := start(t, bare)
	for _, retry := range [][]string{{"connect"}, {"cut"}} {
		f := serve(t, m, "/", []string{refusing(t), good.addr},
			func(s *proxy.Settings) { s.Retry = retry })
		want := map[string]int{"connect": 200, "cut": 502}[retry[0]]
		if g := f.ask("POST /", "", ""); g.status != want {
			t.Errorf("%v: %d, want %d", retry, g.status, want)
		}
	}
}

// refusing returns an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	return "unix:" + t.TempDir() + "/s"
}

// TestRetryLimits: the tries and the time are limited, and the last answer is the client's.
func TestRetryLimits(t *testing.T) { modes.Run(t, testRetryLimits, modes.Direct, modes.HTTP2) }

func testRetryLimits(t *testing.T, m modes.Mode) {
	var asked atomic.Int32
	refuses := func(p *originConn) {
		p.request()
		p.say("HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 3\r\nConnection: close\r\n\r\n%d  ",
			asked.Add(1))
	}
	var all []string
	for range 4 {
		all = append(all, start(t, refuses).addr)
	}
	for name, tt := range map[string]struct {
		tries int
		time  time.Duration
		want  int32
	}{
		"all": {-1, -1, 4}, "two": {2, -1, 2}, "one": {1, -1, 1}, "no time": {-1, 1, 1},
	} {
		asked.Store(0)
		f := serve(t, m, "/", all, func(s *proxy.Settings) {
			s.Retry, s.RetryTries, s.RetryTime = []string{"503"}, tt.tries, tt.time
		})
		g := f.get("/")
		if n := asked.Load(); n != tt.want || g.status != 503 || g.body != fmt.Sprint(n, "  ")[:3] ||
			g.header.Get("Retry-After") != "7" {
			t.Errorf("%s: %d are asked, want %d; %d %q", name, n, tt.want, g.status, g.body)
		}
	}
}

// TestNoneIsNegative: 0 is no value of a limit that is set by default; -1 is none.
func TestNoneIsNegative(t *testing.T) {
	t.Parallel()
	for key, set := range map[string]func(s *proxy.Settings, n int){
		"keepalive_time":     func(s *proxy.Settings, n int) { s.KeepaliveTime = time.Duration(n) },
		"keepalive_requests": func(s *proxy.Settings, n int) { s.KeepaliveRequests = n },
		"retry_tries":        func(s *proxy.Settings, n int) { s.RetryTries = n },
		"retry_time":         func(s *proxy.Settings, n int) { s.RetryTime = time.Duration(n) },
		"max_fails":          func(s *proxy.Settings, n int) { s.MaxFails = n },
	} {
		want := key + ": must be above 0, or -1, which is none"
		if got := refused(t, func(s *proxy.Settings) { set(s, 0) }); got != want {
			t.Error(got)
		}
		if got := refused(t, func(s *proxy.Settings) { set(s, -1) }); got != "" {
			t.Error(got)
		}
	}
}

// TestRetryStatusCounts: an upstream that refuses three times in a row is passed over, but not one
// that does not have a page, or does not let the client have it.
func TestRetryStatusCounts(t *testing.T) {
	modes.Run(t, testRetryStatusCounts, modes.Direct, modes.HTTP2)
}

func testRetryStatusCounts(t *testing.T, m modes.Mode) {
	for status, most := range map[string]int32{"403": 12, "404": 12, "429": 3, "500": 3, "503": 3} {
		bad, good := start(t, fails[status]), start(t, bare)
		f := serve(t, m, "/", []string{bad.addr, good.addr},
			func(s *proxy.Settings) { s.Retry = []string{status} })
		for range 12 {
			if g := f.get("/"); g.status != 200 {
				t.Error(status, g)
			}
		}
		if n := bad.accepted.Load(); n != most {
			t.Errorf("%s: %d times asked, want %d", status, n, most)
		}
	}
}

// TestRetryAfterInterim: a client that has got an interim response of one upstream gets the final
// one of the same.
func TestRetryAfterInterim(t *testing.T) {
	modes.Run(t, testRetryAfterInterim, modes.Direct, modes.HTTP2)
}

func testRetryAfterInterim(t *testing.T, m modes.Mode) {
	bad := start(t, func(p *originConn) {
		p.request()
		p.say(
			"HTTP/1.1 103 x\r\nLink: a\r\n\r\nHTTP/1.1 503 x\r\nContent-Length: 0\r\nConnection: " +
				"close\r\n\r\n")
	})
	good := start(t, bare)
	f := serve(t, m, "/", []string{bad.addr, good.addr},
		func(s *proxy.Settings) { s.Retry = []string{"503"} })
	c := f.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if g := read(c.R, "GET"); g.status != 103 {
		t.Error(g)
	}
	if g := read(c.R, "GET"); g.status != 503 || good.accepted.Load() != 0 {
		t.Error(g)
	}
}

// TestHungIdleConnections: an upstream that hangs is passed over in time, though it has answered on
// the connections before.
func TestHungIdleConnections(t *testing.T) {
	modes.Run(t, testHungIdleConnections, modes.Direct, modes.HTTP2)
}

func testHungIdleConnections(t *testing.T, m modes.Mode) {
	bad := start(t, func(p *originConn) { p.request(); p.say("%s", hello); p.request(); p.drain() })
	good := start(t, bare)
	f := serve(t, m, "/", []string{bad.addr, good.addr}, func(s *proxy.Settings) {
		s.FirstByteTimeout, s.IdleTimeout = wait.Patience, 10*wait.Patience
	})
	for range 4 {
		if g := f.patiently("GET /", "", "", wait.Patience+time.Second, bad); g.status != 200 {
			t.Error(g)
		}
	}
}

// TestKeepAliveIsHeeded: what the answer says of the time for which the connection is kept counts.
func TestKeepAliveIsHeeded(t *testing.T) {
	modes.Run(t, testKeepAliveIsHeeded, modes.Direct, modes.HTTP2)
}

func testKeepAliveIsHeeded(t *testing.T, m modes.Mode) {
	for field, reused := range map[string]bool{
		"timeout=0, max=5": false, `max=5, Timeout="0"`: false, "max=5": true, "timeout=x": true,
		"timeout=60": true,
	} {
		o := start(t, always("HTTP/1.1 200 OK\r\nKeep-Alive: "+field+"\r\nContent-Length: 0\r\n\r\n"))
		f := serve(t, m, "/", []string{o.addr},
			func(s *proxy.Settings) { s.IdleTimeout = wait.Patience })
		f.get("/")
		if reused {
			f.ask("POST "+last, "", "")
		}
		wait.Until(t, "it is closed", func() bool { return o.open.Load() == 0 })
		if n := o.accepted.Load(); n != 1 {
			t.Errorf("%s: %d connections", field, n)
		}
	}
}

// TestRetryKey: what is not a cause is refused.
func TestRetryKey(t *testing.T) {
	_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
		func(s *proxy.Settings) { s.Address, s.Retry = []string{"127.0.0.1:1"}, []string{"cut", "401"} })
	want := `retry: expected some of connect, cut, timeout, malformed, 403, 404, 429, 500, 502, ` +
		`503, 504, not "401"`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
	if !slices.Equal(proxy.Defaults.Retry, []string{"connect", "cut", "timeout"}) {
		t.Error(proxy.Defaults.Retry)
	}
}

// TestConnectionsOfManyClients: with the defaults, there are no more connections than clients,
// however many requests these have.
func TestConnectionsOfManyClients(t *testing.T) {
	const clients, requests = 64, 20
	o := start(t, always(hello))
	f := serve(t, modes.Several, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.IdleTimeout = proxy.Defaults.IdleTimeout
	})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c := f.Dial()
			defer c.Close()
			for range requests {
				c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if g := read(c.R, "GET"); g.body != "hello" {
					t.Error(g)
					return
				}
			}
		})
	}
	all.Wait()
	if n := o.accepted.Load(); n > clients {
		t.Errorf("%d connections for %d clients", n, clients)
	}
}
