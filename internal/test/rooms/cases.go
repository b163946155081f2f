package rooms

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// OneRoom tests that nodes, which start makes, are in one room: they hear each other, and what was
// said before they came.
func OneRoom(t *testing.T, start func() *Node) {
	t.Helper()
	one, two := start(), start()
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	at1.Hears(room1, Numbered("a", 0, 100)...)
	at2.Expect(Numbered("a", 0, 100)...)
	Publish(room2, "b")
	at2.Expect("b")
	at1.Expect("b")

	// A process that comes later gets the history, and what it says itself.
	three := start()
	room3 := three.Hub.Topic("room")
	at3 := three.Follow(room3, pubsub.Options{History: 3})
	Publish(room3, "here I am")
	said := append(Numbered("a", 0, 100), "b")
	at3.ExpectEnd(said, 2, "here I am")
	at1.Expect("here I am")
	at2.Expect("here I am")

	// The last of a process leaves and comes back.
	close(at3.Done)
	Publish(room1, "meanwhile")
	at1.Expect("meanwhile")
	at2.Expect("meanwhile")
	at3 = three.Follow(room3, pubsub.Options{History: 2})
	at3.ExpectEnd(append(said, "meanwhile"), 1, "here I am")
	Publish(room1, "end")
	for _, f := range []*Follower{at1, at2, at3} {
		f.Expect("end")
		f.Quiet()
	}
	if !one.Hub.Carried() {
		t.Error("not carried")
	}
}

// CutOff tests that a node whose broker is behind w goes on while it is cut off, again and again,
// as does another one, and that both then have everything, in order.
func CutOff(t *testing.T, w *Wire, one, two *Node) {
	t.Helper()
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	Publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")
	for round := range 3 {
		w.Cut(true)
		one.Status.Expect("local")
		from, to := 300*round, 300*(round+1)
		at1.Hears(room1, Numbered("a", from, to)...)
		at2.Hears(room2, Numbered("b", from, to)...)
		w.Cut(false)
		one.Status.Expect("carried")
		at1.Expect(Numbered("b", from, to)...)
		at2.Expect(Numbered("a", from, to)...)
	}
	two.Status.Quiet()
	at1.Quiet()
	at2.Quiet()
}

// SlowSubscriber tests that a subscriber which takes 20 ms for each message does not slow down
// another one of the same topic, or of the same pattern, in its process.
func SlowSubscriber(t *testing.T, one, two *Node, to func(*Node) Source) {
	t.Helper()
	const messages, most = 300, 200
	room := one.Hub.Topic("room.1")
	var read atomic.Int64
	subscribed := make(chan struct{})
	two.Loops.Go(0, func(th *loop.Thread) {
		sub := to(two).Subscribe(th, pubsub.Options{})
		close(subscribed)
		for {
			if _, err := sub.Receive(-1); err != nil || th.Sleep(20*time.Millisecond) != nil {
				return
			}
			read.Add(1)
		}
	})
	<-subscribed
	fast := two.Follow(to(two), pubsub.Options{Queue: pubsub.DefaultQueue, Policy: pubsub.Disconnect})
	Heard(t, one, "room.1", fast)
	for _, text := range Numbered("a", 0, messages) {
		Publish(room, text)
		fast.Expect(text)
	}
	if n := read.Load(); n > most {
		t.Errorf("the slow subscriber has read %d of %d messages first", n, messages)
	}
	fast.Quiet()
}

var ups atomic.Int64 // texts and topics that there was one of

// Heard publishes until what it publishes comes: a pattern begins when the broker has heard of it.
func Heard(t *testing.T, n *Node, topic string, at *Follower) {
	t.Helper()
	for range int(Limit / (100 * time.Millisecond)) {
		text := fmt.Sprint("up", ups.Add(1))
		Publish(n.Hub.Topic(topic), text)
		for late := time.After(100 * time.Millisecond); ; {
			select {
			case m := <-at.messages:
				if string(m.Data) == text {
					return
				}
				continue
			case <-late:
			}
			break
		}
	}
	t.Fatal("nothing comes")
}

// Flood tests that each message of a flood, which is more than a process keeps for its broker,
// either comes or counts as dropped.
func Flood(t *testing.T, one, two *Node, to func(*Node) Source) {
	t.Helper()
	const messages = 30000
	room := one.Hub.Topic("room.1")
	type result struct{ came, dropped int }
	subscribed, ended := make(chan struct{}), make(chan result)
	two.Loops.Go(0, func(th *loop.Thread) {
		sub, r := to(two).Subscribe(th, pubsub.Options{Queue: pubsub.MaxQueue}), result{}
		close(subscribed)
		for {
			m, err := sub.Receive(-1)
			if err != nil {
				return
			}
			switch {
			case string(m.Data) == "end":
				r.dropped = sub.Dropped()
				go func() { ended <- r }()
				return
			case m.Data[0] != 'u': // one of Heard
				r.came++
			}
		}
	})
	<-subscribed
	Heard(t, one, "room.1", two.Follow(to(two), pubsub.Options{}))
	for i := range messages {
		room.Publish(strconv.AppendInt(nil, int64(i), 10))
	}
	one.Acknowledged()
	Publish(room, "end")
	select {
	case r := <-ended:
		lost := one.Engine.Lost()
		t.Logf("%d came, %d were dropped, %d of them by the sender", r.came, r.dropped, lost)
		if r.came+r.dropped != messages || r.dropped < lost {
			t.Errorf("%d came, and %d were dropped, of %d", r.came, r.dropped, messages)
		}
	case <-time.After(Limit):
		t.Fatal("the end does not come")
	}
}
