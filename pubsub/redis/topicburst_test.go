package redis_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A burst in one topic, whose subscriber reads slowly, does not hold up another topic of the same
// reader: its message comes long before the subscriber has read what one read of the burst takes.
func TestBurstOfOneTopic(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	var read atomic.Int64
	subscribed := make(chan struct{})
	two.Loops.Go(0, func(th *loop.Thread) {
		sub := two.Hub.Topic("burst").Subscribe(th, pubsub.Options{Queue: 8})
		close(subscribed)
		for {
			if _, err := sub.Receive(-1); err != nil {
				return
			}
			read.Add(1)
			if th.Sleep(300*time.Millisecond) != nil {
				return
			}
		}
	})
	<-subscribed
	other := two.Follow(two.Hub.Topic("other"), pubsub.Options{})
	publish(one.Hub.Topic("other"), "up")
	other.Expect("up")
	publish(one.Hub.Topic("burst"), numbered("m", 0, 40)...)
	wait.Until(t, "the burst has begun", func() bool { return read.Load() > 0 })
	publish(one.Hub.Topic("other"), "news")
	other.Expect("news")
	if n := read.Load(); n > 7 {
		t.Errorf("the subscriber of the other topic has read %d messages first", n)
	}
}
