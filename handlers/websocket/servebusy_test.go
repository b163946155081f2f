package websocket_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// busy is a connection under Serve whose program does something unusual with what comes.
type busy struct {
	open    func(c *websocket.Conn)
	message func(c *websocket.Conn, p string)
}

func (b *busy) Open(c *websocket.Conn) {
	if b.open != nil {
		b.open(c)
	}
}
func (b *busy) Message(c *websocket.Conn, _ int, p []byte)        { b.message(c, string(p)) }
func (b *busy) Closed(_ *websocket.Conn, _ *websocket.CloseError) {}

func (b *busy) serve(u *websocket.Upgrader) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int { return u.Serve(req, resp, b) }
}

func say(c *websocket.Conn, m *pubsub.Message) {
	if m != nil {
		_ = c.WriteMessage(websocket.Text, m.Data)
	}
}

// TestServeJoins: what comes while threads that Message has started end is seen to, once they have.
func TestServeJoins(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		var gate [2]loop.Promise[int]
		n := 0
		b := &busy{open: func(c *websocket.Conn) { c.Subscribe(room, pubsub.Options{}, say) }}
		b.message = func(c *websocket.Conn, p string) {
			g := &gate[n]
			n++
			ask := func(t *loop.Thread) error { _, err := g.Await(t, -1); return err }
			if th := c.Thread(); p == "go" {
				th.Go(ask)
			} else {
				th.Defer(func() { _ = ask(th) })
			}
		}
		s := start(t, m, b.serve(new(websocket.Upgrader)))
		c := upgrade(s)
		for i, how := range []string{"go", "defer"} {
			c.Send(frame(0x81, how))
			s.Settle()
			room.Publish([]byte(how))
			s.Settle()
			gate[i].Resolve(0)
			c.expect(text(how))
		}
		s.Unworked()
		c.Send(bye)
		c.closed(1000)
	}, direct, overTLS, modes.HTTP2)
}

// TestServeDropsTheUnread: what Message leaves unread of a message holds nothing up.
func TestServeDropsTheUnread(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		b := &busy{open: func(c *websocket.Conn) { c.Subscribe(room, pubsub.Options{}, say) }}
		b.message = func(c *websocket.Conn, p string) {
			if p == "peek" {
				var two [2]byte
				_, r, _ := c.NextReader()
				_, _ = io.ReadFull(r, two[:])
				p = string(two[:])
			}
			_ = c.WriteMessage(websocket.Text, []byte(p))
		}
		s := start(t, m, b.serve(&websocket.Upgrader{Compression: true}))
		long := strings.Repeat("0123456789", 2000)
		for _, compressed := range []bool{false, true} {
			c := upgrade(s, offered)
			if compressed {
				c.Send(frame(0x81, "peek") + frame(0xc1, packed(long)))
			} else {
				c.Send(frame(0x81, "peek") + frame(0x01, long[:15000]) + frame(0x80, long[15000:]))
			}
			c.expect(text("01"))
			s.Unworked()
			room.Publish([]byte("news"))
			c.expect(text("news"))
			c.Send(frame(0x81, "next"))
			c.expect(text("next"))
			c.Send(bye)
			c.closed(1000)
		}
	}, plain, direct, overTLS, modes.HTTP2)
}

// TestServeReadDeadline: under Serve a message has to come in time, or the connection ends.
func TestServeReadDeadline(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		b := &busy{open: func(c *websocket.Conn) { c.SetReadDeadline(time.Now().Add(10 * time.Second)) }}
		b.message = func(c *websocket.Conn, p string) {
			c.SetReadDeadline(time.Time{})
			_ = c.WriteMessage(websocket.Text, []byte(p))
		}
		s := start(t, m, b.serve(&websocket.Upgrader{PingInterval: time.Hour}))
		late, begun, c := upgrade(s), upgrade(s), upgrade(s)
		begun.Send(frame(0x81, "login")[:7])
		c.Send(frame(0x81, "login"))
		c.expect(text("login"))
		s.Skip(11 * time.Second)
		late.closed(1008)
		begun.closed(1008)
		c.Send(frame(0x81, "on"))
		c.expect(text("on"))
	}, direct, overTLS, modes.HTTP2)
}
