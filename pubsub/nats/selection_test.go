package nats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// A pattern gets what other processes publish to topics that match, in order and once, whatever
// characters they have, and across an outage.
func TestPattern(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	one, two := startNode(t, b.url()), startNode(t, "nats://"+w.Addr())
	publish(one.Hub.Topic("room.1"), "before")
	one.Acknowledged()
	at := two.Follow(two.Hub.Pattern("room.*"), pubsub.Options{})
	names := []string{"room.1", "room.é *", "other.1", "room.1.x", "room.=41", "room"}
	for i, name := range names {
		publish(one.Hub.Topic(name), fmt.Sprint("a", i))
		publish(two.Hub.Topic(name), fmt.Sprint("b", i))
	}
	got := make(map[string]string)
	for range 6 {
		m := at.NextMessage()
		got[string(m.Data)] = m.Topic
	}
	for i, name := range names {
		for _, text := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			if want := []string{"room.1", "room.é *", "", "", "room.=41", ""}[i]; got[text] != want {
				t.Errorf("%s, of %s: %q, want %q", text, name, got[text], want)
			}
		}
	}
	for round := range 2 {
		w.Cut(true)
		wait.Until(t, "it is cut", func() bool { return !two.Hub.Carried() })
		for i := range 300 {
			publish(one.Hub.Topic(fmt.Sprint("room.", i%3)), fmt.Sprint("c", 300*round+i))
		}
		one.Acknowledged()
		w.Cut(false)
		at.Expect(numbered("c", 300*round, 300*round+300)...)
	}
	wait.Until(t, "it is carried", two.Hub.Carried)
	at.Quiet()
}

// Of a queue group, one member gets each message, in whichever process it is. When a process
// leaves, the others get all.
func TestQueueGroup(t *testing.T) {
	b := startBroker(t)
	one, two, three := startNode(t, b.url()), startNode(t, b.url()), startNode(t, b.url())
	o := pubsub.Options{Group: "workers"}
	at := []*rooms.Follower{one.Follow(one.Hub.Topic("jobs"), o), two.Follow(two.Hub.Topic("jobs"), o)}
	all := one.Follow(one.Hub.Topic("jobs"), pubsub.Options{})
	// until both have the consumer
	got := make([][]string, 2)
	read := func() {
		for i, f := range at {
			got[i] = append(got[i], f.All()...)
		}
	}
	n := 0
	wait.Until(t, "both get some", func() bool {
		publish(three.Hub.Topic("jobs"), fmt.Sprint("a", n))
		n++
		read()
		return len(got[0]) > 0 && len(got[1]) > 0
	})
	all.Until(fmt.Sprint("a", n-1))
	wait.Until(t, "nothing is under way", func() bool {
		before := len(got[0]) + len(got[1])
		read()
		return before > 0 && three.Engine.Pending() == 0 && before == len(got[0])+len(got[1])
	})
	first := n
	publish(three.Hub.Topic("jobs"), numbered("a", n, n+500)...)
	publish(one.Hub.Topic("jobs"), numbered("b", 0, 500)...)
	n += 500
	both := func() (texts []string) {
		read()
		return slices.Concat(got[0], got[1])
	}
	wait.Until(t, "all have come", func() bool {
		texts, missing := both(), 0
		for _, text := range append(numbered("a", first, n), numbered("b", 0, 500)...) {
			if !slices.Contains(texts, text) {
				missing++
			}
		}
		return missing == 0
	})
	texts := both()
	slices.Sort(texts)
	if len(slices.Compact(slices.Clone(texts))) != len(texts) {
		t.Error("one has come twice")
	}
	for i, texts := range got {
		if len(texts) < 50 {
			t.Errorf("process %d has %d", i, len(texts))
		}
	}
	close(at[0].Done)
	got[1] = nil
	wait.Until(t, "the other gets all", func() bool {
		publish(three.Hub.Topic("jobs"), "last")
		read()
		return strings.Count(strings.Join(got[1], " "), "last") > 10
	})
}
