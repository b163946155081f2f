package websocket_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// hearer is a connection that relays a room.
type hearer struct {
	room  *pubsub.Topic
	frame func(m *pubsub.Message) *websocket.PreparedMessage
}

func (h *hearer) Open(c *websocket.Conn) { c.Relay(h.room, pubsub.Options{Queue: 4000}, h.frame) }
func (h *hearer) Message(c *websocket.Conn, kind int, p []byte) {
	_ = c.WriteMessage(kind, p)
}
func (h *hearer) Closed(*websocket.Conn, *websocket.CloseError) {}

func hearing(room *pubsub.Topic,
	frame func(m *pubsub.Message) *websocket.PreparedMessage) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		return new(websocket.Upgrader).Serve(req, resp, &hearer{room, frame})
	}
}

// TestRelayNeedsNoCoroutine: what is relayed to idle connections resumes none of their threads, and
// what the connection says meanwhile goes on as ever.
func TestRelayNeedsNoCoroutine(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		s := start(t, m, hearing(room, framed))
		var all []*client
		for range 20 {
			all = append(all, upgrade(s))
		}
		for i := range 3 {
			var before int64
			s.Unworked()
			s.On(func(l *loop.Loop) { before = l.Layer().Resumes() })
			room.Publish(fmt.Append(nil, i))
			for _, c := range all {
				c.expect(text(fmt.Sprint(i)))
			}
			s.On(func(l *loop.Loop) { // under invariants, some of the kernels pretend to be full
				if n := l.Layer().Resumes() - before; n > 5 && !invariants.Enabled {
					t.Errorf("%d threads were resumed for 20 deliveries", n)
				}
			})
			all[0].Send(frame(0x81, "echo"))
			all[0].expect(text("echo"))
		}
		for _, c := range all {
			c.Send(bye)
			c.closed(1000)
			c.Close()
		}
		s.Idle()
	}, plain, direct, overUNIX)
}

// TestRelayToFullKernel: what the kernel has no room for follows when it has, whole and in its
// order.
func TestRelayToFullKernel(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		const many = 200
		hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 16 << 20}}
		room := hub.Topic("room")
		s := start(t, m, hearing(room, framed))
		c := &client{s.DialSmall()}
		c.Send(handshake + "\r\n")
		c.answered()
		s.Unworked()
		said := func(i int) []byte {
			return append(fmt.Appendf(nil, "%d ", i), bytes.Repeat([]byte{'x'}, 20_000)...)
		}
		for i := range many {
			room.Publish(said(i))
			s.Settle() // so that each is sent by itself
		}
		for i := range many {
			c.expect(text(string(said(i))))
		}
		c.Send(bye)
		c.closed(1000)
	}, direct, overUNIX)
}

// TestRelayPanics: a frame function that panics ends the connection that it is called for.
func TestRelayPanics(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		room := new(pubsub.Hub).Topic("room")
		var calls atomic.Int32 // with what makes it panic
		s := start(t, m, hearing(room, func(m *pubsub.Message) *websocket.PreparedMessage {
			if string(m.Data) == "bad" {
				calls.Add(1)
				panic("bad data")
			}
			return framed(m)
		}))
		s.Panics.Expect()
		c := upgrade(s)
		s.Unworked()
		room.Publish([]byte("good"))
		c.expect(text("good"))
		s.Unworked()
		room.Publish([]byte("bad"))
		if f, err := c.next(); err != nil || f.first != 0x88 || f.payload[:2] != "\x03\xf3" {
			t.Errorf("%q, %v", f, err)
		}
		c.Close()
		s.Idle()
		upgrade(s).Send(bye)           // the loop goes on
		if n := calls.Load(); n != 2 { // on the loop, then by the thread
			t.Errorf("called %d times", n)
		}
	}, direct)
}

// TestRelayPanicsOnTheLoop: a frame function that needs a thread is called on the loop once, and
// that is logged.
func TestRelayPanicsOnTheLoop(t *testing.T) {
	room := new(pubsub.Hub).Topic("room")
	var calls atomic.Int32
	var on atomic.Pointer[loop.Loop]
	s := start(t, direct, hearing(room, func(m *pubsub.Message) *websocket.PreparedMessage {
		calls.Add(1)
		_ = on.Load().Layer().Current().Loop()
		return framed(m)
	}))
	on.Store(s.All[0])
	c := upgrade(s)
	for _, said := range []string{"one", "two", "three"} {
		s.Unworked()
		room.Publish([]byte(said))
		c.expect(text(said))
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("called %d times", n)
	}
	if n := strings.Count(s.Log.String(), "panicked on the loop"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	c.Send(bye)
	c.closed(1000)
}
