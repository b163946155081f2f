package nats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

// The broker was never there. Subscribers come and go, and wait neither for it nor for each other;
// what has gone is forgotten.
func TestManyComeAndGoWithoutBroker(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	w.Cut(true)
	one := startNode(t, "nats://"+w.Addr())
	one.Status.Expect("local")
	engine := one.Engine.(*nats.Engine)
	done := make(chan struct{})
	one.Loops.Go(0, func(th *loop.Thread) {
		defer close(done)
		for i := range 20000 {
			sub := one.Hub.Topic(fmt.Sprint("room", i%100)).Subscribe(th, pubsub.Options{History: 1})
			sub.Unsubscribe()
		}
	})
	select {
	case <-done:
	case <-time.After(rooms.Limit):
		t.Fatal("they wait for the broker")
	}
	wait.Until(t, "all are forgotten", func() bool { return engine.Changes() == 0 })
	w.Cut(false)
	one.Status.Expect("carried")
	at := one.Follow(one.Hub.Topic("room1"), pubsub.Options{})
	two := startNode(t, b.url())
	publish(two.Hub.Topic("room1"), "a")
	at.Expect("a")
}
