package redis_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/pubsub"
)

// A primary becomes a replica and runs on, and the address leads to the new primary. The former one
// keeps the connections, and refuses whatever is written.
func TestPrimaryIsDemoted(t *testing.T) {
	t.Parallel()
	first, second := broker.Start(t), broker.Start(t)
	second.Replicate(first)
	w := startWire(t, first)
	one, two := startNode(t, w.url()), startNode(t, w.url())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")

	w.Move(second.Addr())
	second.Do("REPLICAOF NO ONE")
	first.Replicate(second)
	at1.Hears(room1, numbered("a", 0, 300)...)
	at2.Expect(numbered("a", 0, 300)...)
	publish(room2, "b")
	at1.Expect("b")
	at2.Expect("b")
	one.Acknowledged()
	two.Acknowledged()
	if n := one.engine.Lost() + two.engine.Lost(); n > 0 {
		t.Errorf("lost %d", n)
	}
	// Both directions go by the new primary.
	first.Kill()
	publish(room1, "end")
	at2.Expect("end")
	at1.Expect("end")
	at1.Quiet()
	at2.Quiet()
}

// The broker that takes over did not get the last message. It has a long history, of many origins,
// of which a process reads the end alone when it follows a topic: none of that is news.
func TestLastMessageIsLost(t *testing.T) {
	t.Parallel()
	first, second := broker.Start(t), broker.Start(t)
	do := first.KeepConn()
	for i := range 300 {
		do(fmt.Sprintf("XADD lwango:topic:room 1000-%d id x%d-1 time 1 data old", i+1, i/10))
	}
	second.Replicate(first)
	w := startWire(t, first)
	one, two := startNode(t, w.url()), startNode(t, w.url())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	both := func(room *pubsub.Topic, text string) {
		t.Helper()
		publish(room, text)
		at1.Expect(text)
		at2.Expect(text)
	}
	both(room1, "up")
	one.Acknowledged()
	second.Replicate(first)
	second.Do("REPLICAOF NO ONE")
	both(room1, "lost")
	one.Acknowledged()

	w.Move(second.Addr())
	first.Kill()
	one.Status.Expect("local", "carried")
	two.Status.Expect("local", "carried")
	both(room1, "b")
	both(room2, "c")
	at1.Quiet()
	at2.Quiet()

	// A broker with other contents is another stream, although its numbers are low.
	third := broker.Start(t)
	third.Do("XADD lwango:topic:room 1-1 id y-1 time 1 data low")
	w.Move(third.Addr())
	second.Kill()
	at1.Expect("low")
	at2.Expect("low")
	both(room1, "end")
	at1.Quiet()
	at2.Quiet()
}
