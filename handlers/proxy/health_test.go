package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

// inBackground is a server that has goroutines for checks.
type inBackground struct {
	around.None
	run func(func(context.Context))
}

func (b inBackground) Background(f func(context.Context)) { b.run(f) }

// checked is a front whose upstreams are checked until end is called, or the test ends.
func checked(t *testing.T, register func(*handlers.Registry), addresses []string,
	change func(*proxy.Settings)) (f *front, end func()) {
	t.Helper()
	f = &front{log: new(logtext.Buffer)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	end = func() { cancel(); running.Wait() }
	t.Cleanup(end)
	env := handlers.Env{Prefix: "/", Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Process: inBackground{run: func(w func(context.Context)) { running.Go(func() { w(ctx) }) }}}
	h, err := module.Build(t, register, "proxy", env, func(s *proxy.Settings) {
		s.Address = addresses
		s.IdleTimeout = 50 * time.Millisecond
		s.Health = upstreams.Health{Type: "request", Path: "/up?x=1", Status: "200-399",
			Interval: 10 * time.Millisecond,
			Timeout:  10 * time.Second, Rises: 2, Falls: 3}
		if change != nil {
			change(s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Server = module.Start(t, modes.Direct, "/", h)
	return f, end
}

// logged waits until the log has n lines with that text.
func (f *front) logged(t *testing.T, n int, text string) {
	t.Helper()
	wait.Until(t, fmt.Sprint(n, " lines: ", text), func() bool {
		return strings.Count(f.log.String(), text) == n
	})
}

const (
	out  = "proxy: upstream taken out"
	back = "proxy: upstream works again"
)

// TestHealth: whatever is wrong with the answers, an upstream is taken out, gets no requests, and
// comes back. The checks have one connection at a time.
func TestHealth(t *testing.T) {
	t.Parallel()
	stall := func(p *originConn) { io.Copy(io.Discard, p) }
	for _, tt := range []struct {
		name   string
		bad    func(p *originConn)
		change func(*proxy.Settings)
		err    string
	}{
		{"status", func(p *originConn) { p.say("HTTP/1.1 503 No\r\n\r\n") }, nil,
			"/up?x=1 has status 503"},
		{"another status", func(p *originConn) { p.say("HTTP/1.1 301 No\r\nContent-Length: 0\r\n\r\n") },
			func(s *proxy.Settings) { s.Health.Status = "200" }, "/up?x=1 has status 301"},
		{"closes", func(p *originConn) {}, nil, "EOF"},
		{"stalls", stall, func(s *proxy.Settings) { s.Health.Timeout = 500 * time.Millisecond },
			"timeout"},
		{"stalls in the head", func(p *originConn) { p.say("HTTP/1.1 200 OK\r\nX: y\r\n"); stall(p) },
			func(s *proxy.Settings) { s.Health.Timeout = 500 * time.Millisecond }, "timeout"},
		{"no HTTP", func(p *originConn) { p.say("220 mail ready\r\n") }, nil, "malformed"},
		{"endless head", func(p *originConn) {
			io.WriteString(p, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20))
		},
			nil, "EOF"},
		{"endless interims", func(p *originConn) {
			io.WriteString(p, strings.Repeat("HTTP/1.1 103 E\r\n\r\n", 1<<16))
		},
			nil, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			var checking, most, served atomic.Int32
			o := start(t, func(p *originConn) {
				req := p.request()
				if req == nil {
					return
				}
				if req.URL.Path != "/up" {
					served.Add(1)
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na")
					return
				}
				n := checking.Add(1)
				defer checking.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if broken.Load() {
					tt.bad(p)
				} else {
					p.say("HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
				}
			})
			other := start(t, func(p *originConn) {
				if req := p.request(); req != nil && req.URL.Path == "/up" {
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				} else if req != nil {
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nb")
				}
			})
			f, end := checked(t, proxy.Register, []string{o.addr, other.addr}, tt.change)
			for round := 1; round <= 2; round++ {
				broken.Store(true)
				f.logged(t, round, out)
				before := served.Load()
				for range 4 {
					if g := f.get("/"); g.body != "b" {
						t.Error(g)
					}
				}
				if served.Load() != before {
					t.Error("it got requests")
				}
				broken.Store(false)
				f.logged(t, round, back)
				if got := f.get("/").body + f.get("/").body; got != "ab" && got != "ba" {
					t.Error(got)
				}
			}
			end()
			if log := f.log.String(); !strings.Contains(log, tt.err) || strings.Count(log, "\n") != 4 {
				t.Errorf("log: %s", log)
			}
			// The origin may end a little later than the check has closed its connection.
			if n := most.Load(); n > 2 {
				t.Errorf("%d checks at once", n)
			}
			wait.Until(t, "nothing is open", func() bool { return o.open.Load()+other.open.Load() == 0 })
		})
	}
}

// TestHealthAllOut: when all upstreams have been taken out, requests go on as if there were no
// checks: the path of the checks may be what is wrong. A backup stays one, and an upstream to which
// a request could not connect is not tried again at once.
func TestHealthAllOut(t *testing.T) {
	var spare atomic.Int32
	script := func(p *originConn) {
		for {
			req := p.request()
			if req == nil {
				return
			}
			if req.URL.Path == "/up" {
				p.say("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
			} else {
				p.say("%s", hello)
			}
		}
	}
	a, b := start(t, script), start(t, script)
	s := start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			if req.URL.Path != "/up" {
				spare.Add(1)
			}
			p.say("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
		}
	})
	f, _ := checked(t, proxy.Register,
		[]string{a.addr, b.addr, s.addr + " backup", refuse.Address(t)}, nil)
	f.logged(t, 4, out)
	for range 12 {
		if g := f.get("/"); g.status != 200 {
			t.Error(g)
		}
	}
	if n := spare.Load(); n > 0 {
		t.Errorf("%d requests for the backup", n)
	}
	if n := strings.Count(f.log.String(), "upstream not reached"); n != 1 {
		t.Errorf("tried %d times", n)
	}
}

// TestHealthTLS: checks verify the certificate as requests do.
func TestHealthTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	var checks atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/up" {
			checks.Add(1)
		}
	}
	var servers []*httptest.Server
	for _, a := range []*certs.Authority{ca, other} {
		c := []tls.Certificate{a.Issue(time.Hour, "127.0.0.1")}
		servers = append(servers, secure(t, &tls.Config{Certificates: c}, handler))
	}
	f, _ := checked(t, proxy.Register, []string{servers[0].URL, servers[1].URL},
		func(s *proxy.Settings) {
			s.TLS.CA = ca.File
		})
	f.logged(t, 1, out)
	if log := f.log.String(); !strings.Contains(log, "unknown authority") ||
		!strings.Contains(log, servers[1].URL) {
		t.Error(log)
	}
	wait.Until(t, "checks pass", func() bool { return checks.Load() > 5 })
}

// TestHealthCloseNotify: a check takes the page, so that its end resets nothing, and says goodbye
// on TLS. Of a page without end it takes a part.
func TestHealthCloseNotify(t *testing.T) {
	ca := certs.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")},
		MaxVersion: tls.VersionTLS12} // later ones hide which record is an alert
	for _, tt := range []struct {
		name   string
		secure bool
		answer string
	}{
		{"page", false,
			"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("a", 40_000)},
		{"page with a wrong status", true,
			"HTTP/1.1 503 No\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("a", 40_000)},
		{"no page", true, "HTTP/1.1 204 OK\r\n\r\n"},
		{"large page", true,
			"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + strings.Repeat("a", 10_000_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan error, 1)
			var all records
			o := start(t, func(p *originConn) {
				if tt.secure {
					all.Conn = p.Conn
					p.Conn = tls.Server(&all, config)
					p.r = bufio.NewReader(p.Conn)
				}
				if p.request() == nil {
					return
				}
				_, err := io.WriteString(p, tt.answer)
				if err == nil {
					_, err = p.r.ReadByte()
				}
				if tt.secure && err == io.EOF && all.last() != alert {
					err = io.ErrUnexpectedEOF // which crypto/tls says only of half a record
				}
				select {
				case ended <- err:
				default:
				}
			})
			address := o.addr
			if tt.secure {
				address = "https://" + address
			}
			_, end := checked(t, proxy.Register, []string{address}, func(s *proxy.Settings) {
				s.Health.Interval = time.Minute
				if tt.secure {
					s.TLS.CA = ca.File
				}
			})
			err := <-ended
			end()
			if whole := len(tt.answer) < 64<<10; whole && err != io.EOF || !whole && err == io.EOF {
				t.Error(err)
			}
		})
	}
}

// records is a connection that knows what it has read, in TLS.
type records struct {
	net.Conn
	read []byte
}

func (r *records) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.read = append(r.read, p[:n]...)
	return n, err
}

const alert = 21

// last returns the type of the last record (RFC 8446 section 5.1).
func (r *records) last() (kind byte) {
	for b := r.read; len(b) >= 5; b = b[min(5+int(b[3])<<8+int(b[4]), len(b)):] {
		kind = b[0]
	}
	return kind
}

// TestHealthBodyStalls: a body that does not end is no fault: the head has said all.
func TestHealthBodyStalls(t *testing.T) {
	t.Parallel()
	var checks atomic.Int32
	o := start(t, func(p *originConn) {
		if p.request() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na")
			checks.Add(1)
			io.Copy(io.Discard, p)
		}
	})
	f, _ := checked(t, proxy.Register, []string{o.addr}, func(s *proxy.Settings) {
		s.Health.Timeout, s.Health.Falls = time.Second, 1
	})
	wait.Until(t, "checks pass", func() bool { return checks.Load() > 1 })
	if log := f.log.String(); log != "" {
		t.Error(log)
	}
}

// TestHealthShared: routes with the same checks share them, and when one of the routes ends, as at
// a reload, the other goes on with what is known.
func TestHealthShared(t *testing.T) {
	var checks atomic.Int32
	ln := must.Listen(t)
	o := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks.Add(1)
		w.WriteHeader(500)
	})}
	go o.Serve(ln)
	defer o.Close()
	var r handlers.Registry
	proxy.Register(&r)
	register := func(to *handlers.Registry) { *to = r }
	slow := func(s *proxy.Settings) { s.Health.Interval, s.Health.Falls = time.Hour, 1 }
	addresses := []string{ln.Addr().String()}
	first, end := checked(t, register, addresses, slow)
	second, _ := checked(t, register, addresses, slow)
	wait.Until(t, "one of the two has found out", func() bool {
		return strings.Count(first.log.String()+second.log.String(), out) == 1
	})
	end()
	third, end := checked(t, register, addresses, slow)
	end()
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}
	if log := third.log.String(); log != "" {
		t.Error(log)
	}
}

// TestHealthSettings: the errors of the key.
func TestHealthSettings(t *testing.T) {
	for _, tt := range []struct {
		change func(*upstreams.Health)
		want   string
	}{
		{func(h *upstreams.Health) { h.Path = "/up" }, ""},
		{func(h *upstreams.Health) { h.Path, h.Status = "/up", "204" }, ""},
		{func(h *upstreams.Health) { h.Falls = 1 }, `health: expected a path, such as "/up"`},
		{func(h *upstreams.Health) { h.Path = "up" },
			`health: path: expected one that begins with a slash, in ASCII without spaces, not "up"`},
		{func(h *upstreams.Health) { h.Path = "/u\r\np" },
			`health: path: expected one that begins with a slash, in ASCII without spaces, not "/u\r\np"`},
		{func(h *upstreams.Health) { h.Path, h.Status = "/", "399-200" },
			`health: status: expected one ` +
				`between 200 and 599, or a range as "200-399", not "399-200"`},
		{func(h *upstreams.Health) { h.Path, h.Status = "/", "100" }, `health: status: expected one ` +
			`between 200 and 599, or a range as "200-399", not "100"`},
		{func(h *upstreams.Health) { h.Path, h.Status = "/", "2xx" }, `health: status: expected one ` +
			`between 200 and 599, or a range as "200-399", not "2xx"`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address = []string{"a:1"}
				tt.change(&s.Health)
			})
		have := ""
		if err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("have %s, want %s", have, tt.want)
		}
	}
}
