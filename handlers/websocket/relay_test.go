package websocket_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/pubsub"
)

// Prepared messages that go out together come in their order, whatever their lengths, and whether
// they are compressed.
func TestPreparedTogether(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		var texts []string
		var all []*websocket.PreparedMessage
		for i, n := range []int{1, 100, 4090, 5, 0, 4096, 4096, 70000, 1, 2000, 2000, 2000, 3, 10000} {
			texts = append(texts, strings.Repeat(string(rune('a'+i)), n))
			all = append(all, must.Get(websocket.Prepare(websocket.Text, []byte(texts[i])))(t))
		}
		u := &websocket.Upgrader{Compression: true}
		s := start(t, m, having(u, func(c *websocket.Conn) {
			var err error
			for n := range len(all) + 1 {
				if err := c.WritePrepared(all[:n]...); err != nil {
					t.Error(err)
				}
			}
			_, _, err = c.ReadMessage()
			if !isCode(err, 1000) {
				t.Error(err)
			}
		}))
		for _, fields := range []string{"", offered} {
			c := upgrade(s, fields)
			for n := range len(all) + 1 {
				for i := range n {
					f, err := c.read()
					if err != nil || fields == "" && string(f.payload) != texts[i] {
						t.Fatalf("%d of %d: %x, %d bytes, %v", i, n, f.first, len(f.payload), err)
					}
				}
			}
			c.Send(bye)
			c.closed(1000)
		}
	})
}

// relayed is a connection that gets all that is published.
type relayed struct {
	topic *pubsub.Topic
	o     pubsub.Options
}

var framed = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
	m, _ := websocket.Prepare(websocket.Text, data)
	return m
})

func (r *relayed) Open(c *websocket.Conn) { c.Relay(r.topic, r.o, framed) }
func (r *relayed) Message(c *websocket.Conn, _ int, text []byte) {
	for i := range 100 {
		r.topic.Publish(fmt.Append(nil, i))
	}
}
func (r *relayed) Closed(*websocket.Conn, *websocket.CloseError) {}

// Under Serve, what has come goes out together, in its order, and a connection that has fallen
// behind is closed.
func TestRelayed(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		hub := new(pubsub.Hub)
		u := &websocket.Upgrader{}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			o := pubsub.Options{Queue: 200}
			if req.Header().Get("Slow") != "" {
				o = pubsub.Options{Queue: 50, Policy: pubsub.Disconnect}
			}
			return u.Serve(req, resp, &relayed{hub.Topic("room"), o})
		})
		c := upgrade(s, "")
		c.Send(frame(0x81, "go"))
		for i := range 100 {
			if f, err := c.read(); err != nil || string(f.payload) != fmt.Sprint(i) {
				t.Fatalf("%d: %q, %v", i, f.payload, err)
			}
		}
		c.Send(bye)
		c.closed(1000)
		slow := upgrade(s, "Slow: yes\r\n")
		slow.Send(frame(0x81, "go") + closing(1013, "")) // its answer comes at once
		slow.closed(1013)
	})
}

// A Relay that ends for another reason than that the connection is too slow does not close it.
func TestRelayEnds(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		var sub, refused *pubsub.Subscription
		b := &busy{open: func(c *websocket.Conn) {
			sub = c.Relay(room, pubsub.Options{}, framed)
			refused = c.Relay(room, pubsub.Options{Group: "g", Policy: pubsub.Disconnect}, framed)
		}}
		b.message = func(c *websocket.Conn, p string) {
			if refused.Err() == nil {
				t.Error("not refused")
			}
			if p == "leave" {
				sub.Unsubscribe()
			}
			_ = c.WriteMessage(websocket.Text, []byte(p))
		}
		s := start(t, m, b.serve(new(websocket.Upgrader)))
		c := upgrade(s)
		s.Settle()
		room.Publish([]byte("news"))
		c.expect(text("news"))
		c.Send(frame(0x81, "leave"))
		c.expect(text("leave"))
		s.Settle()
		c.Send(frame(0x81, "still here") + bye)
		c.expect(text("still here"))
		c.closed(1000)
	}, direct, overTLS, modes.HTTP2)
}

// What is relayed comes behind a message that the program writes in parts.
func TestRelayWaitsForTheWriter(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		for _, group := range []string{"", "g"} {
			room := new(pubsub.Hub).Topic("room")
			var w io.WriteCloser
			b := &busy{open: func(c *websocket.Conn) { c.Relay(room, pubsub.Options{Group: group}, framed) }}
			b.message = func(c *websocket.Conn, p string) {
				if w == nil {
					w, _ = c.NextWriter(websocket.Text)
				}
				_, _ = io.WriteString(w, p)
				if p == "end" {
					_ = w.Close()
				}
			}
			s := start(t, m, b.serve(new(websocket.Upgrader)))
			c := upgrade(s)
			s.Settle()
			c.Send(frame(0x81, "begin "))
			s.Settle()
			room.Publish([]byte("one"))
			room.Publish([]byte("two"))
			s.Unworked()
			c.Send(frame(0x81, "end"))
			c.expect(text("begin end"), text("one"), text("two"))
			room.Publish([]byte("three"))
			c.expect(text("three"))
			c.Send(bye)
			c.closed(1000)
		}
	}, direct, overTLS, modes.HTTP2)
}

// A prepared message that compression does not shorten goes out as it is, and counts for nothing
// that is compressed.
func TestPreparedRandom(t *testing.T) {
	random := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	u := &websocket.Upgrader{Compression: true, Takeover: true}
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, having(u, func(c *websocket.Conn) {
			_ = c.WriteMessage(websocket.Text, []byte(quotes(0)))
			_ = c.WritePrepared(must.Get(websocket.Prepare(websocket.Binary, random))(t))
			_ = c.WriteMessage(websocket.Text, []byte(quotes(1)))
		}))
		c := upgrade(s, offered)
		var k keeper
		for i, want := range []string{quotes(0), string(random), quotes(1)} {
			f := must.Get(c.read())(t)
			if f.first&0x40 != 0 {
				f.payload = k.inflate(t, f.payload)
			}
			if f.payload != want || f.first&0x40 != 0 != (i != 1) {
				t.Errorf("message %d: %x, %.100q", i, f.first, f.payload)
			}
		}
	}, direct, serving(direct))
}
