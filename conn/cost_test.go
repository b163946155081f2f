package conn_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestPlainRequestIsFree goes through the real parser, writer and loop, with a client that
// allocates nothing itself.
func TestPlainRequestIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Content-Type", "text/plain")
		l := req.Layer()
		if ua, ok := l.HeaderView("user-agent"); !ok || len(ua) == 0 || len(l.PathView()) != 6 {
			return 500
		}
		resp.WriteString("Hello, world!")
		return 200
	}
	raw :=
		[]byte(
			"GET /hello HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n")
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h, Count: true,
			Headers: []conn.Field{{Name: "Server", Value: "lwango"}}})
		f := must.Get(s.Dial().TCP().File())(t) // blocking, and out of Go's poller
		defer f.Close()
		fd := int(f.Fd())
		buf := make([]byte, 16<<10)
		for _, pipelined := range []int{1, 16} {
			batch := []byte(strings.Repeat(string(raw), pipelined))
			size := 0
			ask := func() {
				if _, err := unix.Write(fd, batch); err != nil {
					t.Fatal(err)
				}
				for got := 0; got == 0 || got < size; {
					n, err := unix.Read(fd, buf[got:])
					if n <= 0 {
						t.Fatal(n, err)
					}
					got += n
					if size == 0 { // the first time
						size = n
					}
				}
			}
			ask()
			if got := strings.Count(string(buf[:size]), "200 OK"); got != pipelined {
				t.Fatalf("%d answers in one read, want %d", got, pipelined)
			}
			var before, after loop.Stats
			s.On(func(l *loop.Loop) { before = l.Stats() })
			if n := testing.AllocsPerRun(100, ask); n != 0 {
				t.Errorf("%v allocations for %d requests", n, pipelined)
			}
			s.On(func(l *loop.Loop) { after = l.Stats() })
			if n := after.Ctls - before.Ctls; n != 0 {
				t.Errorf("%d calls of epoll_ctl", n)
			}
		}
	}, plain, direct)
}

// TestOneRequestIsReadAtOnce: a connection whose request is there when it is accepted, and that
// ends behind the answer, costs no epoll_ctl, and no turn of the loop between the two.
func TestOneRequestIsReadAtOnce(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		const n = 20
		var before, after loop.Stats
		block, blocked := make(chan struct{}), make(chan struct{})
		s.On(func(l *loop.Loop) {
			before = l.Stats()
			must.Do(t, l.Post(func() { close(blocked); <-block })) // until all requests are there
		})
		<-blocked
		var all []net.Conn
		for range n {
			c := s.Dial()
			send(t, c, strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
			all = append(all, c)
		}
		close(block)
		for _, c := range all {
			if a := answers(t, c, "GET"); len(a) != 1 || a[0].StatusCode != 200 {
				t.Fatal(a)
			}
		}
		s.On(func(l *loop.Loop) { after = l.Stats() })
		if n := after.Ctls - before.Ctls; n != 0 {
			t.Errorf("%d calls of epoll_ctl", n)
		}
	}, plain, direct)
}

func TestIdleConnectionsHoldNoCoroutine(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		// On a busy machine the last handshake may be long after the first.
		s := start(t, m,
			conn.Config{Handler: hello, Limits: conn.Limits{KeepAliveTimeout: wait.Patience}})
		before := runtime.NumGoroutine()
		const n = 200
		for range n {
			c := s.Dial()
			send(t, c, get)
			if a := answers(t, io.LimitReader(c, 1<<20), "GET"); a[0].StatusCode != 200 {
				t.Fatal(a[0].Status)
			}
		}
		if s.Active() != n {
			t.Errorf("%d connections counted, want %d", s.Active(), n)
		}
		s.Settle()
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d goroutines for %d idle connections", more, n)
		}
	}, http1...)
}
