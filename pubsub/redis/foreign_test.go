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
	taken1, room1 := one.hub.Topic("taken"), one.hub.Topic("room")
	atTaken, at2 := one.follow(taken1, pubsub.Options{History: 3}),
		two.follow(two.hub.Topic("room"), pubsub.Options{})
	publish(taken1, "here")
	publish(room1, "a")
	atTaken.expect("here")
	at2.expect("a")
	one.acknowledged()
	if one.engine.Lost() != 1 {
		t.Errorf("lost %d", one.engine.Lost())
	}
	// It becomes so while it is read.
	at1 := one.follow(room1, pubsub.Options{})
	other1, other2 := one.follow(one.hub.Topic("other"), pubsub.Options{}),
		two.follow(two.hub.Topic("other"), pubsub.Options{})
	publish(one.hub.Topic("other"), "x")
	other2.expect("x")
	other1.expect("x")
	b.Do("SET lwango:topic:room x")
	b.Do("CLIENT KILL TYPE normal")
	two.status.expect("local", "carried")
	one.status.expect("local", "carried")
	publish(room1, "only here")
	publish(one.hub.Topic("other"), "y")
	at1.expect("only here")
	other2.expect("y")
	// It is a stream again, after the next look.
	b.Do("DEL lwango:topic:room")
	b.Do("CLIENT KILL TYPE normal")
	two.status.expect("local", "carried")
	one.status.expect("local", "carried")
	publish(room1, "everywhere")
	at2.expect("everywhere")
}

// So it is if the topic had no messages before.
func TestKeyIsSomethingElseAtFirst(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	one.follow(one.hub.Topic("empty"), pubsub.Options{})
	other := one.follow(one.hub.Topic("other"), pubsub.Options{})
	publish(two.hub.Topic("other"), "x")
	other.expect("x") // read behind a look at all topics that were followed before
	b.Do("SET lwango:topic:empty x")
	b.Do("CLIENT KILL TYPE normal")
	one.status.expect("local", "carried")
	publish(two.hub.Topic("other"), "y")
	other.expect("y")
}

// A stream that takes no more is one topic's trouble, too, and no reason to send again what others
// have taken.
func TestStreamIsAtItsEnd(t *testing.T) {
	b := broker.Start(t)
	b.Do("XADD lwango:topic:full 18446744073709551615-18446744073709551615 a b")
	one := startNode(t, b.URL())
	publish(one.hub.Topic("full"), "x")
	one.acknowledged()
	publish(one.hub.Topic("room"), "y")
	publish(one.hub.Topic("full"), "x")
	one.acknowledged()
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
	at1 := one.follow(one.hub.Topic("room"), pubsub.Options{History: 10})
	at1.expect("good")
	b.Do("XADD lwango:topic:room * id x-1 time 1 data again")
	b.Do("XADD lwango:topic:room * id x-3 time 1 data better")
	b.Do("XADD lwango:topic:room * id x-2 time 1 data late")
	b.Do("XADD lwango:topic:room * id x-4 time 1 data best")
	at1.expect("better", "best")
}
