package redis_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/pubsub"
)

// A key that is something else than a stream is one topic's trouble.
func TestKeyIsSomethingElse(t *testing.T) {
	b := broker.Start(t)
	b.Do("SET lwango:topic:taken x")
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	taken1, room1 := one.Hub.Topic("taken"), one.Hub.Topic("room")
	atTaken, at2 := one.Follow(taken1, pubsub.Options{History: 3}),
		two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(taken1, "here")
	publish(room1, "a")
	atTaken.Expect("here")
	at2.Expect("a")
	one.Acknowledged()
	if one.engine.Lost() != 1 {
		t.Errorf("lost %d", one.engine.Lost())
	}
	// It becomes so while it is read.
	at1 := one.Follow(room1, pubsub.Options{})
	other1, other2 := one.Follow(one.Hub.Topic("other"), pubsub.Options{}),
		two.Follow(two.Hub.Topic("other"), pubsub.Options{})
	publish(one.Hub.Topic("other"), "x")
	other2.Expect("x")
	other1.Expect("x")
	b.Do("SET lwango:topic:room x")
	b.Do("CLIENT KILL TYPE normal")
	two.Status.Expect("local", "carried")
	one.Status.Expect("local", "carried")
	publish(room1, "only here")
	publish(one.Hub.Topic("other"), "y")
	at1.Expect("only here")
	other2.Expect("y")
	// It is a stream again, after the next look.
	b.Do("DEL lwango:topic:room")
	b.Do("CLIENT KILL TYPE normal")
	two.Status.Expect("local", "carried")
	one.Status.Expect("local", "carried")
	publish(room1, "everywhere")
	at2.Expect("everywhere")
}

// So it is if the topic had no messages before.
func TestKeyIsSomethingElseAtFirst(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	one.Follow(one.Hub.Topic("empty"), pubsub.Options{})
	other := one.Follow(one.Hub.Topic("other"), pubsub.Options{})
	publish(two.Hub.Topic("other"), "x")
	other.Expect("x") // read behind a look at all topics that were followed before
	b.Do("SET lwango:topic:empty x")
	b.Do("CLIENT KILL TYPE normal")
	one.Status.Expect("local", "carried")
	publish(two.Hub.Topic("other"), "y")
	other.Expect("y")
}

// A stream that takes no more is one topic's trouble, too, and no reason to send again what others
// have taken.
func TestStreamIsAtItsEnd(t *testing.T) {
	b := broker.Start(t)
	b.Do("XADD lwango:topic:full 18446744073709551615-18446744073709551615 a b")
	one := startNode(t, b.URL())
	publish(one.Hub.Topic("full"), "x")
	one.Acknowledged()
	publish(one.Hub.Topic("room"), "y")
	publish(one.Hub.Topic("full"), "x")
	one.Acknowledged()
	if n := one.engine.Lost(); n != 2 {
		t.Errorf("lost %d", n)
	}
}

// Foreign entries in a stream are passed over.
func TestForeignEntries(t *testing.T) {
	b := broker.Start(t)
	for _, fields := range []string{"a b", "id x-1 time 1", "id -1 time 1 data x",
		"id x- time 1 data x", "id x-1 time y data x",
		"id " + strings.Repeat("x", 100) + "-1 time 1 data x"} {
		b.Do("XADD lwango:topic:room * " + fields)
	}
	b.Do("XADD lwango:topic:room * id x-1 time 1 data good")
	one := startNode(t, b.URL())
	at1 := one.Follow(one.Hub.Topic("room"), pubsub.Options{History: 10})
	at1.Expect("good")
	b.Do("XADD lwango:topic:room * id x-1 time 1 data again")
	b.Do("XADD lwango:topic:room * id x-3 time 1 data better")
	b.Do("XADD lwango:topic:room * id x-2 time 1 data late")
	b.Do("XADD lwango:topic:room * id x-4 time 1 data best")
	at1.Expect("better", "best")
}
