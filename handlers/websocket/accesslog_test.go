package websocket_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
)

// recorder is an access log.
type recorder chan conn.AccessEntry

func (r recorder) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	r <- *e
	return true
}

func (r recorder) HasRoom(*loop.Loop, conn.Share) bool { return true }

// TestAccessLog: the line of a WebSocket comes at its end, with the code, whichever side has closed
// it.
func TestAccessLog(t *testing.T) {
	defer websocket.SetCloseWait(100 * time.Millisecond)()
	both(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		serve := choosing(u, func(req *conn.Request) talk {
			switch req.RawQuery() {
			case "":
				return talk{message: back}
			case "close":
				return talk{open: func(c *websocket.Conn) { _ = c.Close(4001, "enough") }}
			}
			return talk{}
		})
		log := make(recorder, 10)
		s := server.Start(t, m, conn.Config{Handler: styled(m, serve), AccessLog: log})
		upgrade := func(query string) *client {
			c := &client{s.Dial()}
			c.Send("GET /ws" + query + handshake[len("GET /"):] + "\r\n")
			c.answered()
			return c
		}
		for _, row := range []struct {
			query string
			end   func(c *client)
			code  int
		}{
			{"", func(c *client) { c.Send(frame(0x88, "\x03\xe9")) }, websocket.GoingAway},
			{"", func(c *client) { c.Send(frame(0x88, "")) }, websocket.NoStatus},
			{"", func(c *client) { c.Reset(); c.Close() }, websocket.Abnormal},
			{"", func(c *client) { c.Send(frame(0x83, "")) }, websocket.ProtocolError},
			{"?close", func(c *client) { c.Send(frame(0x88, "\x0f\xa1")) }, 4001},
			{"?return", func(c *client) { c.Send(frame(0x88, "\x03\xe8")) },
				websocket.NormalClosure},
		} {
			c := upgrade(row.query)
			row.end(c)
			select {
			case e := <-log:
				if e.CloseCode != row.code || !e.Hijacked || e.Status != 101 || e.Duration <= 0 ||
					string(e.Target) != "/ws"+row.query {
					t.Errorf("%s: code %d, want %d: %+v", row.query, e.CloseCode, row.code, e)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("nothing is logged")
			}
			c.Close()
			s.Idle()
			if len(log) > 0 {
				t.Error("a second entry")
			}
		}
	})
}

// TestBehindProxy: the other end is the client, as the proxy in front says, and not the proxy.
func TestBehindProxy(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		addr := make(chan string, 1)
		log := make(recorder, 1)
		s := server.Start(t, m, conn.Config{AccessLog: log,
			Proxies: map[string]*conn.Proxies{
				"": {Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
			Handler: styled(m, having(new(websocket.Upgrader), func(c *websocket.Conn) {
				addr <- c.RemoteAddr().String()
			}))})
		c := upgrade(s, "X-Forwarded-For: 192.0.2.1:77\r\n")
		c.Send(frame(0x88, ""))
		const want = "192.0.2.1:77"
		if got := <-addr; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if e := <-log; e.Remote.String() != want {
			t.Errorf("logged %v, want %s", e.Remote, want)
		}
	})
}
