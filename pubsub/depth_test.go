package pubsub_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// An engine is told how much history is wanted. Who asks for more than the engine has brought
// learns that some is missing.
func TestHistoryDepth(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		asked, depth, there, got int
		forgotten                bool // one who asks for twice as much
	}{
		{asked: 1000, depth: 1000, there: 5000, got: 1000, forgotten: true},
		{asked: 1000, depth: 1000, there: 1000, got: 1000},
		{asked: 1000, depth: 1000, there: 70, got: 70},
		{asked: 10, depth: 64, there: 5000, got: 10},
		{asked: 64, depth: 64, there: 5000, got: 64, forgotten: true},
	} {
		t.Run(fmt.Sprint(row.asked, " of ", row.there), func(t *testing.T) {
			var hub pubsub.Hub
			var e script
			hub.Connect(&e)
			loops.Run(t, func(th *loop.Thread) {
				room := hub.Topic("room")
				sub := room.Subscribe(th, pubsub.Options{History: row.asked})
				publish(room, "xy")
				feed := e.feed("room")
				if got := feed.Depth(); got != row.depth {
					t.Errorf("depth %d", got)
				}
				var ms []*pubsub.Message
				for n := range row.there {
					ms = append(ms, theirs(fmt.Sprint(n), time.Hour))
				}
				ms = ms[max(len(ms)-feed.Depth()-1, 0):]
				feed.Loaded(ms)
				count := func(sub *pubsub.Subscription) (n int) {
					for sub.Next() != nil {
						n++
					}
					return n
				}
				if n := count(sub); n != row.got+2 || sub.Forgotten() > 0 || sub.Dropped() > 0 {
					t.Errorf("%d messages, %d forgotten, %d dropped", n, sub.Forgotten(), sub.Dropped())
				}
				late := room.Subscribe(th, pubsub.Options{History: 2 * row.asked})
				if count(late); late.Forgotten() > 0 != row.forgotten {
					t.Errorf("%d forgotten", late.Forgotten())
				}
			})
		})
	}
}
