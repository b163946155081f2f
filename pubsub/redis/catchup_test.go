package redis_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// All of a room get what they have missed, although their queues hold little of it. A subscriber
// that does not read at all is disconnected, as its policy says, and holds up no other.
func TestCatchUpWaitsForSubscribers(t *testing.T) {
	const missed, subscribers = 500, 100
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	var followers []*follower
	for i := range subscribers {
		policy := []pubsub.Policy{pubsub.Disconnect, pubsub.DropOldest, pubsub.DropNewest}[i%3]
		followers = append(followers,
			two.Follow(room2, pubsub.Options{Policy: policy,
				Queue: []int{16, pubsub.DefaultQueue, 256}[i%3]}))
	}
	stuck := make(chan *pubsub.Subscription, 1)
	two.Loops.Go(0, func(th *loop.Thread) {
		stuck <- room2.Subscribe(th, pubsub.Options{Policy: pubsub.Disconnect})
		_, _ = th.AwaitAny(-1, th.Loop().Stopped())
	})
	sub := <-stuck
	at1 := one.Follow(room1, pubsub.Options{})
	publish(room1, "up")
	at1.Expect("up")
	for _, f := range followers {
		f.Expect("up")
	}
	b.Signal(syscall.SIGSTOP)
	at1.Hears(room1, "a0")
	time.Sleep(50 * time.Millisecond) // it is under way, and nothing else
	at1.Hears(room1, numbered("a", 1, missed)...)
	time.Sleep(300 * time.Millisecond) // the outage lasts for so long that these are late
	b.Signal(syscall.SIGCONT)
	start := time.Now()
	for i, f := range followers {
		for n := range missed {
			if got := f.Next(); got != fmt.Sprintf("a%d", n) {
				t.Fatalf("subscriber %d: %q, want a%d", i, got, n)
			}
		}
		f.Quiet()
	}
	t.Logf("caught up after %v", time.Since(start))
	ended := make(chan error)
	must.Do(t, two.Loops.All[0].Post(func() {
		m, err := sub.Next(),
			sub.Err()
		go func() { _ = m; ended <- err }()
	}))
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
	room := one.Hub.Topic("room")
	news, all := one.Follow(room, pubsub.Options{}), one.Follow(room, pubsub.Options{History: 1})
	all.Expect("before")
	b.Do(fmt.Sprintf("XADD lwango:topic:room * id x-2 time %d data after", behind))
	news.Expect("after")
	all.Expect("after")

	// What is published between Follow and the first answer.
	b.Signal(syscall.SIGSTOP)
	late, lateAll := one.Follow(one.Hub.Topic("late"), pubsub.Options{}),
		one.Follow(one.Hub.Topic("late"), pubsub.Options{History: 9})
	b.Signal(syscall.SIGCONT)
	b.Do(fmt.Sprintf("XADD lwango:topic:late * id x-1 time %d data meanwhile", behind))
	late.Expect("meanwhile")
	lateAll.Expect("meanwhile")
}

// What was published while a topic is followed and the broker is away is news, and read in pages;
// what was before is not.
func TestLongHistory(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	room2 := two.Hub.Topic("room")
	for i, text := range numbered("h", 1, 100) {
		b.Do(fmt.Sprintf("XADD lwango:topic:room 1000-%d id x-%d time 1 data %s", i+1, i+1, text))
	}
	w.Cut(true)
	one.Status.Expect("local")
	room1 := one.Hub.Topic("room")
	at1 := one.Follow(room1, pubsub.Options{})
	publish(room2, numbered("n", 0, 500)...)
	two.Acknowledged()
	w.Cut(false)
	at1.Expect(numbered("n", 0, 500)...)
	one.Status.Expect("carried")
	if got := one.Follow(room1, pubsub.Options{History: 64}).Collect(64); got[63] != "n499" ||
		got[0] != "n436" {
		t.Errorf("history: %q to %q", got[0], got[63])
	}
}

// As much history comes as is asked for, and who asks for more than a hub has learnt is told.
func TestDeepHistory(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	publish(one.Hub.Topic("room"), numbered("a", 0, 500)...)
	publish(one.Hub.Topic("hall"), numbered("a", 0, 500)...)
	one.Acknowledged()
	if got := two.Follow(two.Hub.Topic("room"),
		pubsub.Options{History: 400}).Collect(400); got[0] != "a100" ||
		got[399] != "a499" {
		t.Errorf("%s to %s", got[0], got[399])
	}
	forgotten := make(chan int)
	two.Loops.Go(0, func(th *loop.Thread) {
		hall := two.Hub.Topic("hall")
		few := hall.Subscribe(th, pubsub.Options{History: 1})
		_, _ = few.Receive(limit)
		all := hall.Subscribe(th, pubsub.Options{History: 400})
		_, _ = all.Receive(limit)
		n := all.Forgotten()
		go func() { forgotten <- n }()
	})
	if n := <-forgotten; n == 0 {
		t.Error("nothing is forgotten")
	}
}
