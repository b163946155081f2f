package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Topics that are never silent keep a process neither from being carried again after an outage, nor
// from topics that are followed then.
func TestCarriedAgainUnderTraffic(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := broker.Start(t, "--appendonly", "no")
			w := startWire(t, b)
			one, two := startNode(t, w.url()), startNode(t, b.URL())
			rooms.Heard(t, two.Node, "room.1", one.Follow(to(one.Node), pubsub.Options{}))
			for i := range 24 { // more than are asked for at once
				one.Follow(one.Hub.Topic(fmt.Sprint("room.", i)), pubsub.Options{})
			}
			w.Cut(true)
			one.Status.Expect("local")
			w.Ahead(func() { // no round of reads finds nothing, however slow the machine is
				two.Hub.Topic("room.1").Publish([]byte("a"))
				two.Acknowledged()
			})
			defer w.Ahead(nil)
			w.Cut(false)
			one.Status.Expect("carried")
			rooms.Heard(t, two.Node, "hall", one.Follow(one.Hub.Topic("hall"), pubsub.Options{History: 1}))
		})
	}
}

// A process that reads less than is published is carried again when it has what it has missed.
func TestCarriedAgainWhileBehind(t *testing.T) {
	for _, row := range []struct {
		name string
		to   func(*rooms.Node) rooms.Source
		busy int // topics: more is published while a read takes its time than that brings
	}{{"topic", roomOf, 1}, {"pattern", patternOf, 8}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := broker.Start(t, "--appendonly", "no")
			w := startWire(t, b)
			one, two := startNode(t, w.url()), startNode(t, b.URL())
			rooms.Heard(t, two.Node, "room.1", one.Follow(row.to(one.Node), pubsub.Options{}))
			for i := range row.busy {
				defer two.Traffic(fmt.Sprint("room.", i+1), "a")()
			}
			w.Slow(50 * time.Millisecond)
			w.Cut(true)
			one.Status.Expect("local")
			w.Cut(false)
			one.Status.Expect("carried")
		})
	}
}

// The broker goes away again while what was missed waits for a slow subscriber: the others get what
// was read before, all the same.
func TestCutOffWhileCatchingUp(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := broker.Start(t, "--appendonly", "no")
			w := startWire(t, b)
			one, two := startNode(t, w.url()), startNode(t, b.URL())
			at := one.Follow(to(one.Node), pubsub.Options{})
			// the reader notices that the broker is away
			one.Follow(one.Hub.Topic("other"), pubsub.Options{})
			rooms.Heard(t, two.Node, "room.1", at)
			w.Cut(true)
			one.Status.Expect("local")
			stuck := make(chan struct{})
			one.Loops.Go(0, func(th *loop.Thread) {
				to(one.Node).Subscribe(th, pubsub.Options{Queue: 8})
				close(stuck)
				_, _ = th.AwaitAny(-1, th.Loop().Stopped())
			})
			<-stuck
			publish(two.Hub.Topic("room.1"), numbered("a", 0, 16)...) // as many as one read takes
			two.Acknowledged()
			w.Cut(false)
			at.Until("a0")
			w.Cut(true)
			cut := time.Now()
			at.Expect(numbered("a", 1, 16)...)
			if d := time.Since(cut); d > 20*time.Second { // for 50 attempts to connect it takes 45 s
				t.Errorf("they had to wait for %v", d)
			}
		})
	}
}
