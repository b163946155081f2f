package redis_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// heard waits until the broker has heard of a pattern.
func heard(t *testing.T, b *broker.Broker) {
	t.Helper()
	wait.Until(t, "there is a stream of all topics", func() bool {
		return b.Do("XLEN lwango:all").(int64) > 0
	})
}

// A pattern gets what other processes publish to topics that match, in order and once, whatever
// characters they have, and across an outage.
func TestPattern(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, b.URL()), startNode(t, w.url())
	publish(one.Hub.Topic("room.1"), "before")
	one.Acknowledged()
	at := two.Follow(two.Hub.Pattern("room.*"), pubsub.Options{})
	heard(t, b)
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
	// A second one, which is for less, and later; the server's own topics are for none.
	less := two.Follow(two.Hub.Pattern("room.2"), pubsub.Options{})
	all := two.Follow(two.Hub.Pattern(">"), pubsub.Options{})
	publish(one.Hub.ServerTopic("purge"), "server")
	publish(one.Hub.Topic("room.1"), "d")
	publish(one.Hub.Topic("room.2"), "e")
	all.Expect("d", "e")
	less.Expect("e")
	at.Expect("d", "e")
	for _, f := range []interface{ Quiet() }{at, less, all} {
		f.Quiet()
	}
}

// A process that follows no pattern appends to no stream of all topics, but when another one does;
// the first batch after that is in it, too. When the stream has gone, all is as before.
func TestStreamOfAll(t *testing.T) {
	b := broker.Start(t)
	one := startNode(t, b.URL())
	publish(one.Hub.Topic("a"), numbered("a", 0, 300)...)
	one.Acknowledged()
	if n := b.Do("EXISTS lwango:all").(int64); n != 0 {
		t.Fatal("there is a stream that nobody needs")
	}
	two := startNode(t, b.URL())
	at := two.Follow(two.Hub.Pattern("*"), pubsub.Options{})
	heard(t, b)
	if ms := b.Do("PTTL lwango:all").(int64); ms <= 0 {
		t.Errorf("it is kept for %d ms", ms)
	}
	publish(one.Hub.Topic("a"), "b")
	publish(one.Hub.Topic("a"), numbered("c", 0, 300)...)
	at.Expect("b")
	at.Expect(numbered("c", 0, 300)...)
	close(at.Done)
	two.Stop(0)
	one.Acknowledged()
	b.Do("DEL lwango:all")
	publish(one.Hub.Topic("a"), numbered("d", 0, 300)...)
	one.Acknowledged()
	if n := b.Do("EXISTS lwango:all").(int64); n != 0 {
		t.Error("the stream has come back")
	}
	if n := b.Do("XLEN lwango:topic:a").(int64); n != 901 {
		t.Errorf("the topic has %d", n)
	}
}

// The broker is killed, and then forgets everything: a pattern and a group go on.
func TestSelectionsOfBrokerThatForgets(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at := one.Follow(one.Hub.Pattern("room.*"), pubsub.Options{})
	jobs := one.Follow(one.Hub.Topic("room.jobs"), pubsub.Options{Group: "workers"})
	any := one.Follow(one.Hub.Pattern("room.>"), pubsub.Options{Group: "workers"})
	heard(t, b)
	groups(t, b, "lwango:topic:room.jobs", 1)
	groups(t, b, "lwango:all", 1)
	room := two.Hub.Topic("room.jobs")
	say := func(from, to int) {
		publish(room, numbered("a", from, to)...)
		two.Acknowledged()
		want := numbered("a", from, to)
		at.Expect(want...)
		all(t, jobs, want)
		all(t, any, want)
	}
	say(0, 300)
	b.Kill()
	one.Status.Expect("local")
	publish(room, numbered("a", 300, 400)...)
	b.Restart()
	at.Expect(numbered("a", 300, 400)...)
	all(t, jobs, numbered("a", 300, 400))
	all(t, any, numbered("a", 300, 400))
	wait.Until(t, "it is carried", func() bool { return one.Hub.Carried() && two.Hub.Carried() })
	b.Do("FLUSHALL")
	wait.Until(t, "groups are there again", func() bool {
		return b.Do("EXISTS lwango:all lwango:topic:room.jobs").(int64) == 2
	})
	say(400, 450)
}

// Patterns and groups in a cluster: all of its shards are read.
func TestSelectionsInCluster(t *testing.T) {
	ci.Only(t, "starts a cluster")
	c := broker.StartCluster(t)
	one, two := startNode(t, c.URL()), startNode(t, c.URL())
	at := two.Follow(two.Hub.Pattern("*"), pubsub.Options{})
	some := two.Follow(two.Hub.Pattern(">"), pubsub.Options{Group: "workers"})
	wait.Until(t, "both are in all shards", func() bool {
		ready := 0
		for _, p := range c.Primaries {
			for _, key := range p.Do("KEYS lwango:*:all").([]any) {
				if groups, ok := p.Do("XINFO GROUPS " + key.(string)).([]any); ok {
					ready += len(groups)
				}
			}
		}
		return ready == 64
	})
	want := make(map[string]bool)
	for i := range 300 {
		text := fmt.Sprint("a", i)
		want[text] = true
		publish(one.Hub.Topic(fmt.Sprint("room", i)), text)
	}
	for _, f := range []*follower{at, some} {
		left := len(want)
		for got := make(map[string]bool); left > 0; left-- {
			text := f.Next()
			if !want[text] || got[text] {
				t.Fatalf("%s is wrong, or comes twice", text)
			}
			got[text] = true
		}
	}
	at.Quiet()
	some.Quiet()
}

// The broker stands still, and carries out later what was sent to it twice: a pattern and a group
// get each message once.
func TestSelectionsOfBrokerThatStandsStill(t *testing.T) {
	t.Parallel() // it mostly waits
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at := one.Follow(one.Hub.Pattern("*"), pubsub.Options{})
	jobs := one.Follow(one.Hub.Topic("jobs"), workers)
	heard(t, b)
	groups(t, b, "lwango:topic:jobs", 1)
	publish(two.Hub.Topic("jobs"), numbered("a", 0, 200)...)
	at.Expect(numbered("a", 0, 200)...)
	all(t, jobs, numbered("a", 0, 200))
	b.Signal(syscall.SIGSTOP)
	publish(two.Hub.Topic("jobs"), numbered("a", 200, 400)...)
	one.Status.Expect("local")
	two.Status.Expect("local")
	at.Quiet()
	b.Signal(syscall.SIGCONT)
	at.Expect(numbered("a", 200, 400)...)
	all(t, jobs, numbered("a", 200, 400))
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	two.Acknowledged()
	publish(two.Hub.Topic("jobs"), "end")
	at.Expect("end")
	all(t, jobs, []string{"end"})
	at.Quiet()
	jobs.Quiet()
}
