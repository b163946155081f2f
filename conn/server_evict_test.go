package conn_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// waiting is a handler for /wait that waits until release is called, and says by waits that it
// does.
func waiting() (h conn.Handler, waits chan struct{}, release func()) {
	waits, done := make(chan struct{}, 100), make(chan struct{})
	h = byPath(map[string]conn.Handler{"/": hello,
		"/wait": func(req *conn.Request, _ *conn.Response) int {
			waits <- struct{}{}
			_ = req.Await(-1, func(context.Context) error { <-done; return nil })
			return 200
		}})
	return h, waits, func() { close(done) }
}

// TestAddressMakesRoom: at max_connections_per_address the connection that has been idle longest of
// the same address gives way, on whichever loop it lives. Those of other addresses and those at
// work do not; only if there are no others, a newcomer gets 503.
func TestAddressMakesRoom(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		const limit, newcomers = 8, 40
		h, waits, release := waiting()
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxConnectionsPerAddress: limit}, Handler: h})
		// A newcomer is let in while other loops are asked. Until they have answered, the next one would
		// be let in as well, or be closed by them before it has asked.
		asked := func() {
			s.Settled("loops were asked", func(*loop.Loop) bool { return conn.Owed(s.Server) == 0 })
		}
		ask := func(ip string) *client {
			c := from(s, ip)
			if got := c.Do("GET", get); got.StatusCode != 200 {
				t.Fatalf("%s: %d", ip, got.StatusCode)
			}
			asked()
			return c
		}
		var others []*client
		for range limit {
			others = append(others, ask("127.0.0.2"))
		}
		var busy, idle []*client
		for range limit / 2 {
			c := from(s, "127.0.0.1")
			send(t, c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
			<-waits
			busy = append(busy, c)
		}
		for i := range newcomers {
			idle = append(idle, ask("127.0.0.1"))
			if m.Loops == 1 && i >= limit/2 {
				if gone := idle[i-limit/2]; open(t, gone) {
					t.Errorf("the one that was idle longest is open after newcomer %d", i)
				}
			}
		}
		s.Settled("the limit holds", func(*loop.Loop) bool { return s.Active() == 2*limit })
		for _, c := range others {
			c.Do("GET", get)
		}
		for range limit / 2 {
			c := from(s, "127.0.0.1")
			send(t, c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
			<-waits
			asked()
			busy = append(busy, c)
		}
		s.Settled("all are busy", func(*loop.Loop) bool { return s.Active() == 2*limit })
		for range 3 {
			if m.TLS {
				break // which gets no answer
			}
			c := from(s, "127.0.0.1")
			if got := c.Do("GET", get); got.StatusCode != 503 && m.Loops == 1 {
				t.Errorf("beyond connections at work: %d", got.StatusCode)
			}
			asked()
			idle = append(idle, c)
		}
		if n := s.Active(); n > 2*limit+1 { // one may be let in, and no loop finds an idle one
			t.Errorf("%d connections, %d addresses may have %d", n, 2, limit)
		}
		release()
		for _, c := range busy {
			if got := c.Answer("GET"); got.StatusCode != 200 {
				t.Errorf("one at work gets %d", got.StatusCode)
			}
		}
		for _, c := range append(append(busy, idle...), others...) {
			c.Close()
		}
		s.Idle()
		if n := conn.Networks(s.Server); n != 0 {
			t.Errorf("%d networks are left", n)
		}
	}, plain, direct, several, overTLS)
}

// TestIdleSessionMakesRoom: an idle session of HTTP/2 gives way to a newcomer of its address.
func TestIdleSessionMakesRoom(t *testing.T) {
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxConnectionsPerAddress: 2}, Handler: hello})
	for i := range 6 {
		r := dial2(t, s).get(1).flush()
		if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 1 200" {
			t.Fatalf("newcomer %d: %s", i, got)
		}
	}
}

// TestTakenOverStays: what a handler has taken over, as a WebSocket, is not idle.
func TestTakenOverStays(t *testing.T) {
	h := byPath(map[string]conn.Handler{"/": hello,
		"/take": func(req *conn.Request, w *conn.Response) int {
			c, _, err := w.Hijack()
			if err != nil {
				return 500
			}
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_, _ = c.Read(make([]byte, 1))
			return 0
		}})
	s := start(t, plain, conn.Config{Limits: conn.Limits{MaxConnectionsPerAddress: 2}, Handler: h})
	var taken []net.Conn
	for range 2 {
		c := must.Dial(t, "tcp", s.Addr)
		send(t, c, "GET /take HTTP/1.1\r\nHost: a\r\n\r\n")
		_ = must.Get(c.Read(make([]byte, 1)))(t)
		taken = append(taken, c)
	}
	if got := s.Dial().Do("GET", get); got.StatusCode != 503 {
		t.Errorf("a newcomer gets %d", got.StatusCode)
	}
	for _, c := range taken {
		c.Close()
	}
}
