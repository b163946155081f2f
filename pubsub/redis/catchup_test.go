package redis_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// All of a room get what they have missed, although their queues hold little of it. A subscriber
// that does not read at all is disconnected, as its policy says, and holds up no other.
func TestCatchUpWaitsForSubscribers(t *testing.T) {
	const missed, subscribers = 3000, 100
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	var followers []*follower
	for i := range subscribers {
		policy := []pubsub.Policy{pubsub.Disconnect, pubsub.DropOldest, pubsub.DropNewest}[i%3]
		followers = append(followers,
			two.follow(room2, pubsub.Options{Policy: policy,
				Queue: []int{16, pubsub.DefaultQueue, 256}[i%3]}))
	}
	stuck := make(chan *pubsub.Subscription, 1)
	two.loops.Go(0, func(th *loop.Thread) {
		stuck <- room2.Subscribe(th, pubsub.Options{Policy: pubsub.Disconnect})
		_, _ = th.AwaitAny(-1, th.Loop().Stopped())
	})
	sub := <-stuck
	at1 := one.follow(room1, pubsub.Options{})
	publish(room1, "up")
	at1.expect("up")
	for _, f := range followers {
		f.expect("up")
	}
	b.Signal(syscall.SIGSTOP)
	at1.hears(room1, numbered("a", 0, missed)...)
	b.Signal(syscall.SIGCONT)
	start := time.Now()
	for i, f := range followers {
		for n := range missed {
			if got := f.next(); got != fmt.Sprintf("a%d", n) {
				t.Fatalf("subscriber %d: %q, want a%d", i, got, n)
			}
		}
		f.quiet()
	}
	t.Logf("caught up after %v", time.Since(start))
	ended := make(chan error)
	if err := two.loops.All[0].Post(func() {
		m, err := sub.Next(),
			sub.Err()
		go func() { _ = m; ended <- err }()
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != pubsub.ErrLagged {
		t.Errorf("the one who does not read: %v", err)
	}
}

// Clocks of other processes are an hour ahead, or behind: the stream tells what is history.
func TestClocksDoNotMatter(t *testing.T) {
	b := broker.Start(t)
	ahead, behind := time.Now().Add(time.Hour).UnixNano(), time.Now().Add(-time.Hour).UnixNano()
	b.Do(fmt.Sprintf("XADD lwango:topic:room 1000-1 id x-1 time %d data before", ahead))
	one := startNode(t, b.URL())
	room := one.hub.Topic("room")
	news, all := one.follow(room, pubsub.Options{}), one.follow(room, pubsub.Options{History: 1})
	all.expect("before")
	b.Do(fmt.Sprintf("XADD lwango:topic:room * id x-2 time %d data after", behind))
	news.expect("after")
	all.expect("after")

	// What is published between Follow and the first answer.
	b.Signal(syscall.SIGSTOP)
	late, lateAll := one.follow(one.hub.Topic("late"), pubsub.Options{}),
		one.follow(one.hub.Topic("late"), pubsub.Options{History: 9})
	b.Signal(syscall.SIGCONT)
	b.Do(fmt.Sprintf("XADD lwango:topic:late * id x-1 time %d data meanwhile", behind))
	late.expect("meanwhile")
	lateAll.expect("meanwhile")
}

// What was published while a topic is followed and the broker is away is news, and read in pages;
// what was before is not.
func TestLongHistory(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	room2 := two.hub.Topic("room")
	for i, text := range numbered("h", 1, 100) {
		b.Do(fmt.Sprintf("XADD lwango:topic:room 1000-%d id x-%d time 1 data %s", i+1, i+1, text))
	}
	w.set(true)
	one.status.expect("local")
	room1 := one.hub.Topic("room")
	at1 := one.follow(room1, pubsub.Options{})
	publish(room2, numbered("n", 0, 500)...)
	two.acknowledged()
	w.set(false)
	at1.expect(numbered("n", 0, 500)...)
	one.status.expect("carried")
	if got := collect(one.follow(room1, pubsub.Options{History: 64}), 64); got[63] != "n499" ||
		got[0] != "n436" {
		t.Errorf("history: %q to %q", got[0], got[63])
	}
}
