package pubsub_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// waiting starts n threads of the i-th loop that receive, and returns when all wait. Each message
// adds one to count, which belongs to the loop.
func waiting(t testing.TB, ls *loops.Loops, i, n int, topic *pubsub.Topic, o pubsub.Options,
	count *int) {
	begun := 0
	for range n {
		ls.Go(i, func(th *loop.Thread) {
			begun++
			for sub := topic.Subscribe(th, o); ; *count++ {
				if _, err := sub.Receive(-1); err != nil {
					return
				}
			}
		})
	}
	for all := false; !all; {
		loops.On(t, ls.All[i], func(*loop.Loop) { all = begun == n })
	}
}

// A thousand subscribers cost nothing while nothing, or only something for others, is published.
func TestNoWakeUpsWhileQuiet(t *testing.T) {
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		var counts [2]int
		waiting(t, ls, 0, 1000, hub.Topic("quiet"), pubsub.Options{}, &counts[0])
		waiting(t, ls, 1, 10, hub.Topic("loud"), pubsub.Options{}, &counts[1])
		stats := func(i int) (s loop.Stats) {
			loops.On(t, ls.All[i], func(l *loop.Loop) { s = l.Stats() })
			return s
		}
		before := stats(0)
		for range 100 {
			publish(hub.Topic("loud"), "x")
			time.Sleep(time.Millisecond) // none of these is to be heard
		}
		after := stats(0)
		// stats itself wakes the loop: it looks, and blocks again. What is left of a brief wait is
		// two more at most.
		if n := after.Waits - before.Waits; n > 5 {
			t.Errorf("epoll_wait has returned %d times", n)
		}
		if n := after.Resumes - before.Resumes; n != 0 {
			t.Errorf("%d threads were resumed", n)
		}
		loops.On(t, ls.All[0], func(*loop.Loop) {
			if counts[0] != 0 {
				t.Errorf("%d messages", counts[0])
			}
		})
	})
}

// A burst that comes while a loop is at something else wakes each of its subscribers once.
func TestOneWakeUpForABurst(t *testing.T) {
	const subscribers, burst = 100, 50
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("room")
		var counts [2]int
		for i := range counts {
			waiting(t, ls, i, subscribers, topic, pubsub.Options{Policy: pubsub.Policy(i)},
				&counts[i])
		}
		var before, after [2]loop.Stats
		busy, published := make(chan struct{}), make(chan struct{})
		for i, l := range ls.All {
			_ = l.Post(func() {
				before[i] = l.Stats()
				busy <- struct{}{}
				<-published
			})
		}
		<-busy
		<-busy
		var posts atomic.Int64
		pubsub.CountPosts(&hub, "room", &posts)
		for range burst {
			publish(topic, "x")
		}
		close(published)
		for i := range counts {
			for got, start := 0, time.Now(); got < subscribers*burst; {
				if time.Since(start) > limit {
					t.Fatalf("%d messages", got)
				}
				loops.On(t, ls.All[i], func(l *loop.Loop) { got, after[i] = counts[i], l.Stats() })
			}
			if n := after[i].Resumes - before[i].Resumes; n != subscribers {
				t.Errorf("loop %d: %d threads were resumed, of %d", i, n, subscribers)
			}
		}
		if n := posts.Load(); n != 2 {
			t.Errorf("%d times something was posted to two loops", n)
		}
	})
}

// What a subscriber takes, and what it leaves, costs no allocation.
func TestAllocations(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector allocates, too")
	for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.Disconnect} {
		var hub pubsub.Hub
		topic := hub.Topic("room")
		data := []byte("a message")
		loops.Run(t, func(th *loop.Thread) {
			subs := make([]*pubsub.Subscription, 100)
			for i := range subs {
				subs[i] = topic.Subscribe(th, pubsub.Options{Policy: policy})
			}
			framed := pubsub.Shared(func(data []byte) *frame { return nil })
			allocs := testing.AllocsPerRun(1000, func() {
				topic.Publish(data)
				for _, sub := range subs {
					if m := sub.Next(); m == nil || framed(m) != nil || sub.Ready() {
						t.Fatal("no message")
					}
				}
			})
			if allocs > 4 { // the message, its ID, its data; what was made of it
				t.Errorf("%v allocations for a message to a hundred", allocs)
			}
		})
	}
}

// An idle subscription is a small record; a smaller one if no thread's deferred calls have to know
// it.
func TestIdleSubscriptionIsSmall(t *testing.T) {
	const many = 9999
	for _, row := range []struct {
		name  string
		o     pubsub.Options
		bound float64
	}{
		{"with a thread", pubsub.Options{}, 320},
		{"kept", pubsub.Options{Keep: true, Policy: pubsub.Disconnect}, 80},
	} {
		t.Run(row.name, func(t *testing.T) {
			var hub pubsub.Hub
			ls := loops.Start(t, modes.Plain, nil, nil)
			measured := make(chan float64)
			ls.Go(0, func(th *loop.Thread) {
				topic := hub.Topic("room")
				publish(topic, "x")
				var before, after runtime.MemStats
				subs := make([]*pubsub.Subscription, many)
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range subs {
					o := row.o
					if !o.Keep {
						o.Policy = pubsub.Policy(i % 3)
					}
					subs[i] = topic.Subscribe(th, o)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				measured <- (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / many
				for _, sub := range subs {
					sub.Unsubscribe()
				}
			})
			if each := <-measured; each > row.bound {
				t.Errorf("%.0f bytes for a subscription, want at most %.0f", each, row.bound)
			} else {
				t.Logf("%.0f bytes for a subscription", each)
			}
		})
	}
}

// A handler that names its topic costs nothing while the topic exists.
func TestTopicIsOneRecord(t *testing.T) {
	var hub pubsub.Hub
	hub.Topic("room").Publish(nil)
	if n := testing.AllocsPerRun(100, func() { hub.Topic("room") }); n > 0 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
	if room := hub.Topic("room"); hub.Topic("room") != room {
		t.Error("two records")
	}
}
