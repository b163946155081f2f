package pubsub_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A subscriber that waits for history may fall behind meanwhile. It learns how many messages it has
// missed, as if it had had its position from the start.
func TestMissedWhilePending(t *testing.T) {
	const published, queue = 20, 4
	for _, o := range []pubsub.Options{{History: 3}, {After: "unknown"}} {
		for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest, pubsub.Disconnect} {
			o.Queue, o.Policy = queue, policy
			handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
				hub := pubsub.Hub{Limits: pubsub.Limits{History: -1}}
				e := new(script)
				hub.Connect(e)
				done := make(chan error)
				ls.Go(0, func(th *loop.Thread) {
					sub := hub.Topic("room").Subscribe(th, o)
					for range published {
						hub.Topic("room").Publish([]byte("x"))
					}
					e.feed("room").Loaded([]*pubsub.Message{theirs("1", 0)})
					n := 0
					for sub.Next() != nil {
						n++
					}
					var err error
					switch lagged := sub.Err() == pubsub.ErrLagged; {
					case policy == pubsub.Disconnect && (n > 0 || !lagged):
						err = fmt.Errorf("%d messages, %v", n, sub.Err())
					case policy != pubsub.Disconnect &&
						(n+sub.Dropped() != published || n == 0 || sub.Err() != nil):
						err = fmt.Errorf("%d messages, %d dropped, of %d, %v", n, sub.Dropped(), published, sub.Err())
					}
					done <- err
				})
				if err := <-done; err != nil {
					t.Errorf("%+v: %v", o, err)
				}
			})
		}
	}
}
