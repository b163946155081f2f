package websocket_test

import (
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
