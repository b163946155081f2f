package pubsub_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// What was made of a message is dropped when all subscribers wait for a later one, and not before;
// it is kept where others may ask for it.
func TestSharedIsDropped(t *testing.T) {
	for _, row := range []struct {
		name string
		join func(th *loop.Thread, hub *pubsub.Hub)
		kept bool
	}{
		{"all wait", func(*loop.Thread, *pubsub.Hub) {}, false},
		{"one does not look", func(th *loop.Thread, hub *pubsub.Hub) {
			hub.Topic("room").Subscribe(th, pubsub.Options{})
		}, true},
		{"one has left", func(th *loop.Thread, hub *pubsub.Hub) {
			hub.Topic("room").Subscribe(th, pubsub.Options{}).Unsubscribe()
		}, false},
		{"history", func(th *loop.Thread, hub *pubsub.Hub) {
			hub.Topic("room").Subscribe(th, pubsub.Options{History: 1}).Unsubscribe()
		}, true},
		{"a queue of its own", func(th *loop.Thread, hub *pubsub.Hub) {
			hub.Topic("room").Subscribe(th, pubsub.Options{Policy: pubsub.DropNewest})
		}, true},
		{"a pattern", func(th *loop.Thread, hub *pubsub.Hub) {
			hub.Pattern("*").Subscribe(th, pubsub.Options{})
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
				var hub pubsub.Hub
				topic := hub.Topic("room")
				framed := pubsub.Shared(func([]byte) *int { return new(int) })
				const members = 6
				begun, got := make(chan struct{}, members+1), make(chan *int, 2*members)
				for i := range members {
					ls.Go(i, func(th *loop.Thread) {
						sub := topic.Subscribe(th, pubsub.Options{})
						begun <- struct{}{}
						for {
							m, err := sub.Receive(-1)
							if err != nil {
								return
							}
							got <- framed(m)
						}
					})
				}
				ls.Go(0, func(th *loop.Thread) {
					row.join(th, &hub)
					begun <- struct{}{}
					_ = th.Sleep(time.Hour)
				})
				for range members + 1 {
					<-begun
				}
				ls.Settle()
				for range 2 {
					m := topic.Publish([]byte("x"))
					first := <-got
					for range members - 1 {
						if f := <-got; f != first {
							t.Error("not shared")
						}
					}
					ls.Settle()
					if kept := framed(m) == first; kept != row.kept {
						t.Errorf("kept: %v, want %v", kept, row.kept)
					}
				}
			})
		})
	}
}
