package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/sys/unix"
)

// TestGarbage: a server that does not speak HTTP, or says more than was asked for, is a 502, and
// nothing of what it says is in an answer, also not in that to a later request.
func TestGarbage(t *testing.T) { modes.Run(t, testGarbage, modes.Direct, modes.HTTP2) }

func testGarbage(t *testing.T, m modes.Mode) {
	noise := modes.Noise(64 << 10)
	said := []string{
		"\r\n\r\n", "\n", "\x00", "200 OK\r\n\r\n", "HTTP\r\n\r\n", "HTTP/ 200 OK\r\n\r\n",
		"HTTP/0.9 200 OK\r\n\r\n",
		"HTTP/3.0 200 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 -20 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1\t200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA\r\n\r\n", "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "<html>hello</html>", "SSH-2.0-OpenSSH_9\r\n",
		"220 mail ESMTP\r\n",
		"\x15\x03\x01\x00\x02\x02\x46", "\x00\x00\x12\x04\x00\x00\x00\x00\x00",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		strings.Repeat("a", 70<<10), "HTTP/1.1 200 " + strings.Repeat("a", 70<<10) + "\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 1", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
	}
	for i := range 32 {
		said = append(said, string(noise[i*100:i*100+i*3+1]))
	}
	next := make(chan string, 1)
	o := start(t, func(p *originConn) {
		if p.request() != nil {
			_, _ = io.WriteString(p, <-next)
		}
	})
	f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.MaxFails = -1
		s.Retry = []string{}
	})
	for _, text := range said {
		next <- text
		if g := f.get("/"); g.status != 502 || strings.Contains(g.body, "hello") {
			t.Errorf("%.60q: %d %.60q, %v", text, g.status, g.body, g.err)
		}
	}
	// What comes behind an answer is none to the next request.
	behind := atomic.Int32{}
	o = start(t, func(p *originConn) {
		for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
			p.say("%s", hello+said[int(behind.Load())%len(said)])
		}
	})
	f = serve(t, m, "/", []string{o.addr}, nil)
	for i := range said {
		behind.Store(int32(i))
		if g := f.get("/"); g.status != 200 || g.body != "hello" {
			t.Errorf("behind %.60q: %d %.60q, %v", said[max(i-1, 0)], g.status, g.body, g.err)
		}
	}
	wait.Until(t, "the connections are closed", func() bool { return o.open.Load() == 0 })
}

// full returns the address of a socket whose queue is full: connections to it hang.
func full(t *testing.T) string {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(fd, 0))
	at := fmt.Sprintf("127.0.0.1:%d", must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4).Port)
	must.Dial(t, "tcp", at)
	wait.Until(t, "a full queue", func() bool { // one more than its length is 0 (tcp(7), TCP_INFO)
		return must.Get(unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO))(t).Unacked > 0
	})
	return at
}

// connecting reports whether a connection to an address of this machine is being made.
func connecting(t *testing.T, at string) bool {
	t.Helper()
	_, port, _ := strings.Cut(at, ":")
	to := fmt.Sprintf("0100007F:%04X", must.Get(strconv.Atoi(port))(t))
	for line := range strings.Lines(must.Read(t, "/proc/net/tcp")) {
		const remote, state, synSent = 2, 3, "02" // proc(5)
		if f := strings.Fields(line); len(f) > state && f[remote] == to && f[state] == synSent {
			return true
		}
	}
	return false
}

// TestHangsAtAccept: a server whose queue is full costs one request a part of connect_timeout, and
// is passed over then.
func TestHangsAtAccept(t *testing.T) {
	t.Parallel()
	good, hangs := start(t, always(hello)), full(t)
	f := serve(t, modes.Direct, "/", []string{hangs, good.addr}, func(s *proxy.Settings) {
		s.ConnectTimeout, s.FailTimeout = time.Hour, time.Hour
	})
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for range 20 {
			if g := f.get("/"); g.body != "hello" {
				t.Error(g)
				return
			}
		}
	}()
	wait.Until(t, "a connection that hangs", func() bool { return connecting(t, hangs) })
	f.Skip(31 * time.Minute) // half of connect_timeout
	<-ended
	if n := strings.Count(f.log.String(), "upstream not reached"); n != 1 {
		t.Errorf("%d tries\n%s", n, f.log)
	}
}

// TestServerFails: of two servers one hangs, behind the accept or within its head, is cut there, or
// answers garbage. Only max_fails requests meet it; for all others it is as if it were not there.
func TestServerFails(t *testing.T) {
	const cut = "cut"
	for _, said := range []string{"", "HTTP/1.1 200 O", "HTTP/1.1 200 O" + cut,
		"SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 200 OK\r\nA\r\n\r\n"} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			var met atomic.Int32
			hangs := said == "" || strings.HasSuffix(said, "O")
			bad := start(t, func(p *originConn) {
				if p.request() != nil {
					met.Add(1)
					text, cut := strings.CutSuffix(said, cut)
					if p.say("%s", text); !cut {
						if hangs {
							p.o.silent <- true
						}
						<-release
					}
				}
			})
			good := start(t, always(hello))
			f := serve(t, modes.Direct, "/", []string{bad.addr, good.addr}, func(s *proxy.Settings) {
				s.FailTimeout = time.Hour
				s.FirstByteTimeout, s.ReadTimeout = wait.Patience, wait.Patience
			})
			failed := 0
			for range 200 {
				// An answer that has begun is not asked for again; its client gets an error.
				switch g := f.patiently("GET /", "", "", wait.Patience+time.Second, bad); {
				case g.body == "hello":
				case said != "" && (g.status == 502 || g.status == 504):
					failed++
				default:
					t.Fatal(g)
				}
			}
			if n := met.Load(); n != 3 || failed > 3 {
				t.Errorf("%d of 200 requests have met the server, %d have failed", n, failed)
			}
			close(release)
			f.get(last)
		})
	}
}

// TestFlapping: a server that comes and goes, and refuses in between, fails no request beside
// another.
func TestFlapping(t *testing.T) {
	t.Parallel()
	ln := must.Get(net.Listen("tcp", "127.0.0.2:0"))(t) // no client has a port of it
	at := ln.Addr().String()
	app := func(ln net.Listener) *http.Server {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "hello")
		})}
		go s.Serve(ln)
		return s
	}
	good := start(t, always(hello))
	f := serve(t, modes.Direct, "/", []string{at, good.addr}, func(s *proxy.Settings) {
		s.FailTimeout = time.Millisecond
	})
	for range 20 {
		s := app(ln)
		for range 10 {
			if g := f.get("/"); g.body != "hello" {
				t.Fatal(g)
			}
		}
		s.Close()
		for range 10 {
			if g := f.get("/"); g.body != "hello" {
				t.Fatal(g)
			}
		}
		ln = must.Get(net.Listen("tcp", at))(t)
	}
	ln.Close()
	f.get(last)
}

// TestAllRestart: with try_for, requests wait while all servers are started anew at once.
func TestAllRestart(t *testing.T) {
	t.Parallel()
	var apps []*http.Server
	var addresses []string
	begin := func(at string) string {
		ln := must.Get(net.Listen("tcp", at))(t)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		})}
		go s.Serve(ln)
		apps = append(apps, s)
		return ln.Addr().String()
	}
	for range 3 {
		addresses = append(addresses, begin("127.0.0.2:0"))
	}
	f := serve(t, modes.Direct, "/", addresses, func(s *proxy.Settings) { s.TryFor = wait.Patience })
	ask := func() {
		if g := f.ask("POST /", "Content-Length: 5\r\n", "hello"); g.status != 200 || g.body != "hello" {
			t.Errorf("%+v", g)
		}
	}
	for range 5 {
		ask()
		for _, s := range apps {
			s.Close()
		}
		apps = nil
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(ask)
		}
		wait.Until(t, "all have come", func() bool { return f.Active() == 10 })
		for _, at := range addresses {
			begin(at)
		}
		clients.Wait()
	}
	for _, s := range apps {
		s.Close()
	}
}
