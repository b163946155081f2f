package websocket_test

import (
	"testing"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// TestServeBusyMember: what is published for a queue group goes to members that are not busy.
func TestServeBusyMember(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		jobs := new(pubsub.Hub).Topic("jobs")
		var gate loop.Promise[int]
		defer gate.Resolve(0)
		waits := make(chan struct{}, 2)
		b := &busy{open: func(c *websocket.Conn) { c.Subscribe(jobs, pubsub.Options{Group: "g"}, say) }}
		b.message = func(c *websocket.Conn, p string) {
			if p == "wait" {
				waits <- struct{}{}
				_, _ = gate.Await(c.Thread(), -1)
			}
			_ = c.WriteMessage(websocket.Text, []byte(p))
		}
		s := start(t, m, b.serve(new(websocket.Upgrader)))
		first, second := upgrade(s), upgrade(s)
		s.Settle()
		first.Send(frame(0x81, "wait"))
		<-waits
		for range 3 {
			jobs.Publish([]byte("job"))
			second.expect(text("job"))
		}
		second.Send(frame(0x81, "wait"))
		<-waits
		jobs.Publish([]byte("later")) // nobody is there for it
		gate.Resolve(0)
		first.expect(text("wait"))
		second.expect(text("wait"))
		first.Send(bye) // and one of them has it before
		second.Send(bye)
		got := 0
		for _, c := range []*client{first, second} {
			f := must.Get(c.next())(t)
			if f == text("later") {
				got++
				f = must.Get(c.next())(t)
			}
			if f.first != 0x88 {
				t.Errorf("got %q", f)
			}
		}
		if got != 1 {
			t.Errorf("%d have got it", got)
		}
	}, direct, overTLS, modes.HTTP2)
}
