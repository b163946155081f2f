package websocket_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
)

// clocked is a connection that says something when a time has passed.
type clocked struct{}

func (clocked) Open(c *websocket.Conn) {
	c.After(time.Second, func(*websocket.Conn) { panic("it was replaced") })
	c.After(10*time.Second, tick)
}

func tick(c *websocket.Conn) {
	_ = c.WriteMessage(websocket.Text, []byte("tick"))
	c.After(10*time.Second, tick)
}

func (clocked) Message(c *websocket.Conn, _ int, p []byte) {
	switch string(p) {
	case "now":
		c.After(0, func(c *websocket.Conn) { _ = c.WriteMessage(websocket.Text, []byte("at once")) })
	case "never":
		c.After(0, nil)
		_ = c.WriteMessage(websocket.Text, p)
	}
}

func (clocked) Closed(c *websocket.Conn, _ *websocket.CloseError) {
	c.After(0, func(*websocket.Conn) { panic("it has ended") })
}

// TestServeAfter: a connection acts after a time, and holds no coroutine meanwhile.
func TestServeAfter(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		u := websocket.Upgrader{PingInterval: time.Hour}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			return u.Serve(req, resp, clocked{})
		})
		c := upgrade(s)
		for range 3 {
			s.Unworked()
			s.Skip(11 * time.Second)
			c.expect(text("tick"))
		}
		c.Send(frame(0x81, "now"))
		c.expect(text("at once"))
		c.Send(frame(0x81, "never"))
		c.expect(text("never"))
		s.Unworked()
		s.Skip(time.Minute)
		c.Send(frame(0x81, "never"))
		c.expect(text("never")) // and nothing before it
		c.Send(frame(0x81, "now") + bye)
		c.expect(text("at once"))
		c.closed(1000)
		c.Close()
		s.Idle()
	}, plain, direct, overTLS, modes.HTTP2)
}
