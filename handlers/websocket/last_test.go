package websocket_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// TestServeSendsLast: what was published, or is in the mailbox, when the server stops comes before the
// close; what is for any member of a queue group does not.
func TestServeSendsLast(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		hub := new(pubsub.Hub)
		said, relayed, jobs := hub.Topic("said"), hub.Topic("relayed"), hub.Topic("jobs")
		b := &busy{open: func(c *websocket.Conn) {
			box := c.Mailbox(1000, false)
			c.Subscribe(said, pubsub.Options{}, func(c *websocket.Conn, m *pubsub.Message) {
				if say(c, m); m != nil && string(m.Data) == "said 2" {
					_ = box.Send(websocket.Text, []byte("boxed"))
					jobs.Publish([]byte("job"))
				}
			})
			c.Relay(relayed, pubsub.Options{}, framed)
			c.Subscribe(jobs, pubsub.Options{Group: "g"}, say)
		}}
		b.message = func(c *websocket.Conn, _ string) {
			l := c.Thread().Loop()
			l.Stop(wait.Patience)
			_, _ = c.Thread().AwaitAny(-1, l.Stopped())
			for _, text := range []string{"1", "2"} {
				said.Publish([]byte("said " + text))
				relayed.Publish([]byte("relayed " + text))
			}
		}
		s := start(t, m, b.serve(new(websocket.Upgrader)))
		c := upgrade(s)
		c.Send(frame(0x81, "stop"))
		c.expect(text("said 1"), text("relayed 1"), text("relayed 2"), text("said 2"), text("boxed"))
		c.closed(1001)
	}, plain, direct, overTLS, modes.HTTP2)
}

// TestStopOfTheBusy: a connection to which there is always something to say is closed all the same.
func TestStopOfTheBusy(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		room, ends := new(pubsub.Hub).Topic("room"), make(chan error, 1)
		s := start(t, m, talking(new(websocket.Upgrader), talk{room: room, message: back, ends: ends,
			open: func(*websocket.Conn) { room.Publish([]byte("busy")) },
			said: func(c *websocket.Conn, m *pubsub.Message) {
				room.Publish(m.Data)
				_ = c.WriteMessage(websocket.Text, m.Data)
			}}))
		c := upgrade(s)
		c.expect(text("busy"))
		s.All[0].Stop(wait.Patience)
		f, err := c.next()
		for err == nil && f == text("busy") {
			f, err = c.next()
		}
		if err != nil || f.payload != "\x03\xe9" {
			t.Errorf("then %q, %v", f, err)
		}
		_, _ = io.WriteString(c, bye)
		if got := code(t, ends); got != websocket.GoingAway {
			t.Errorf("ended with %d", got)
		}
	})
}
