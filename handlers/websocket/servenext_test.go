package websocket_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

// gatherer sends all that has come in one message.
type gatherer struct {
	room *pubsub.Topic
	sub  *pubsub.Subscription
}

func (g *gatherer) Open(c *websocket.Conn) {
	g.sub = c.Subscribe(g.room, pubsub.Options{History: 10}, g.send)
	g.send(c, g.sub.Next()) // what was said before
}

func (g *gatherer) send(c *websocket.Conn, m *pubsub.Message) {
	var all []string
	for ; m != nil; m = g.sub.Next() {
		all = append(all, string(m.Data))
	}
	if len(all) > 0 {
		_ = c.WriteMessage(websocket.Text, []byte(strings.Join(all, ",")))
	}
}

func (g *gatherer) Message(*websocket.Conn, int, []byte) { // nothing is sent before it returns
	for _, text := range []string{"c", "d", "e"} {
		g.room.Publish([]byte(text))
	}
}

func (g *gatherer) Closed(*websocket.Conn, *websocket.CloseError) {}

// TestServeGathers: what has come may be taken by Next, and is delivered once.
func TestServeGathers(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		room.Publish([]byte("a"))
		room.Publish([]byte("b"))
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			return new(websocket.Upgrader).Serve(req, resp, &gatherer{room: room})
		})
		c := upgrade(s)
		c.expect(text("a,b"))
		s.Unworked()
		for range 2 {
			c.Send(frame(0x81, "x"))
			c.expect(text("c,d,e"))
			s.Unworked()
		}
		room.Publish([]byte("last"))
		c.expect(text("last"))
		c.Send(bye)
		c.closed(1000)
		c.Close()
		s.Idle()
	})
}
