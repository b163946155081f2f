package pubsub_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

var workers = pubsub.Options{Group: "workers", Queue: 1 << 12}

// Each message is for one member of each group, whichever loops they are on, and everybody else
// gets all of them.
func TestQueueGroup(t *testing.T) {
	const members, messages = 6, 2000
	for _, pattern := range []bool{false, true} {
		t.Run(fmt.Sprint("pattern ", pattern), func(t *testing.T) {
			handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
				var hub pubsub.Hub
				topic := hub.Topic("jobs.1")
				var got [2]atomic.Int64
				var order atomic.Int64
				subscribed, done := make(chan struct{}, 3*members), make(chan struct{})
				for g, name := range []string{"workers", "others"} {
					for i := range members {
						ls.Go(i, func(th *loop.Thread) {
							o := pubsub.Options{Group: name, Queue: messages}
							sub := topic.Subscribe(th, o)
							if pattern {
								sub.Unsubscribe()
								sub = hub.Pattern("jobs.>").Subscribe(th, o)
							}
							subscribed <- struct{}{}
							for last := -1; ; {
								m, err := sub.Receive(-1)
								if err != nil {
									return
								}
								var n int
								_, _ = fmt.Sscan(string(m.Data), &n)
								if n <= last {
									order.Add(1)
								}
								last = n
								if got[g].Add(1) == messages && got[1-g].Load() == messages {
									close(done)
								}
							}
						})
					}
				}
				all := make(chan int, 1)
				ls.Go(1, func(th *loop.Thread) {
					sub := topic.Subscribe(th, pubsub.Options{Queue: messages})
					subscribed <- struct{}{}
					n := 0
					for ; n < messages; n++ {
						if _, err := sub.Receive(limit); err != nil {
							break
						}
					}
					all <- n
				})
				for range 2*members + 1 {
					<-subscribed
				}
				for i := range messages {
					topic.Publish(fmt.Append(nil, i))
					if i%50 == 0 {
						time.Sleep(20 * time.Microsecond) // let some of them wait
					}
				}
				select {
				case <-done:
				case <-time.After(limit):
				}
				if n := <-all; n != messages {
					t.Errorf("the subscriber got %d", n)
				}
				for g := range got {
					if n := got[g].Load(); n != messages {
						t.Errorf("a group got %d messages", n)
					}
				}
				if n := order.Load(); n > 0 {
					t.Errorf("%d messages came to a member before an earlier one", n)
				}
			})
		})
	}
}

// One message wakes up one member, and the loops take turns.
func TestQueueGroupWakesOne(t *testing.T) {
	const members = 100
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("jobs")
		var counts [2]int
		var stats [2][2]int64
		waiting(t, ls, 0, members/2, topic, workers, &counts[0])
		waiting(t, ls, 1, members/2, topic, workers, &counts[1])
		look := func(at int) {
			for i, l := range ls.All {
				loops.On(t, l, func(l *loop.Loop) { stats[i][at] = l.Stats().Resumes })
			}
		}
		look(0)
		for i := range members {
			publish(topic, "x")
			for got, start := 0, time.Now(); got <= i && time.Since(start) < limit; {
				got = 0
				for i, l := range ls.All {
					loops.On(t, l, func(*loop.Loop) { got += counts[i] })
				}
			}
		}
		look(1)
		sum := stats[0][1] - stats[0][0] + stats[1][1] - stats[1][0]
		if sum != members || counts[0] != members/2 || counts[1] != members/2 {
			t.Errorf("%d threads were resumed for %d messages, of which %v came", sum, members, counts)
		}
	})
}

// What a member was told of and does not take is for the others, however it leaves.
func TestQueueGroupMemberLeaves(t *testing.T) {
	for name, leave := range map[string]func(th *loop.Thread, sub *pubsub.Subscription){
		"unsubscribes": func(_ *loop.Thread, sub *pubsub.Subscription) { sub.Unsubscribe() },
		"does not look": func(th *loop.Thread, _ *pubsub.Subscription) {
			_, _ = th.AwaitAny(-1, th.Loop().Stopped()) // it stays, and is at something else
		},
		"ends": func(*loop.Thread, *pubsub.Subscription) {},
	} {
		t.Run(name, func(t *testing.T) {
			handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
				var hub pubsub.Hub
				topic := hub.Topic("jobs")
				var promise loop.Promise[struct{}]
				waits, second := make(chan struct{}), make(chan struct{})
				got := make(chan error, 1)
				ls.Go(0, func(th *loop.Thread) {
					sub := topic.Subscribe(th, workers)
					close(waits)
					// Both come in one turn, and the thread sees to the other source.
					if i, err := th.AwaitAny(-1, &promise, sub); i != 0 || err != nil {
						t.Errorf("%d, %v", i, err)
					}
					leave(th, sub)
				})
				<-waits
				ls.Go(1, func(th *loop.Thread) {
					sub := topic.Subscribe(th, workers)
					th.Loop().Go(func(*loop.Thread) { close(second) }) // when this one waits
					_, err := sub.Receive(limit)
					got <- err
				})
				loops.On(t, ls.All[0], func(*loop.Loop) {
					<-second
					promise.Resolve(struct{}{})
					for range 2 { // whichever is told first
						publish(topic, "x")
					}
				})
				if err := <-got; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Members come and go all the time, and whatever is published is taken by one of them.
func TestQueueGroupComesAndGoes(t *testing.T) {
	const messages, members = 3000, 20
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("jobs")
		var left atomic.Int64
		left.Store(messages)
		var stayed sync.WaitGroup
		begun := make(chan struct{}, members)
		for i := range members {
			stayed.Add(1)
			ls.Go(i, func(th *loop.Thread) {
				defer stayed.Done()
				for n := 0; left.Load() > 0; n++ {
					sub := topic.Subscribe(th, workers)
					if n == 0 {
						begun <- struct{}{}
					}
					for range 1 + (i+n)%5 {
						if m, _ := sub.Receive(time.Duration(i%3) * time.Millisecond); m != nil {
							left.Add(-1)
						}
					}
					if i > 0 || left.Load() == 0 { // one stays: the queue is not to end
						sub.Unsubscribe()
						_ = th.Sleep(0)
						continue
					}
					for left.Load() > 0 {
						if m, _ := sub.Receive(time.Millisecond); m != nil {
							left.Add(-1)
						}
					}
				}
			})
		}
		for range members {
			<-begun
		}
		for i := range messages {
			publish(topic, "x")
			if i%100 == 0 {
				time.Sleep(50 * time.Microsecond)
			}
		}
		stayed.Wait()
		if n := left.Load(); n != 0 {
			t.Errorf("%d messages came to two members", -n)
		}
		if n, _ := pubsub.Selections(&hub); n != 0 {
			t.Errorf("%d selections are left", n)
		}
	})
	// What is full loses its oldest messages, and whoever receives the next one is told.
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		one := hub.Topic("jobs").Subscribe(th, pubsub.Options{Group: "g", Queue: 2})
		two := hub.Topic("jobs").Subscribe(th, pubsub.Options{Group: "g", Queue: 3})
		publish(hub.Topic("jobs"), "abcde")
		if m := one.Next(); m == nil || string(m.Data) != "c" || one.Dropped() != 2 {
			t.Errorf("%v, %d dropped", m, one.Dropped())
		}
		if got := rest(two); got != "de" || two.Dropped() != 0 || one.Next() != nil {
			t.Errorf("%q, %d dropped", got, two.Dropped())
		}
		pubsub.Bytes(&hub)
	})
}

// A member that is at work, and still watched, as a connection without a coroutine is, is not told
// of what others can take.
func TestQueueGroupMemberAtWork(t *testing.T) {
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("jobs")
		got := make(chan error, 1)
		ls.Go(0, func(th *loop.Thread) {
			busy := topic.Subscribe(th, workers)
			if err := busy.Watch(th); err != nil || busy.Ready() {
				t.Errorf("%v", err)
			}
			defer busy.Unwatch(th)
			publish(topic, "x")
			if m := busy.Next(); !busy.Ready() && m == nil {
				t.Error("no message")
			}
			publish(topic, "x")
			_ = busy.Ready() && busy.Next() != nil // and is at work with it
			th.Go(func(th *loop.Thread) error {
				_, err := topic.Subscribe(th, workers).Receive(limit)
				got <- err
				return nil
			})
			th.Yield()
			th.Yield()
			publish(topic, "y")
			_, _ = th.AwaitAny(-1, th.Loop().Stopped())
		})
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A loop was chosen because a member waits there, which is at something else before it is told: the
// message is for a member on another loop.
func TestQueueGroupMemberIsGone(t *testing.T) {
	const rounds = 2 // the loops are chosen in turn
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("jobs")
		var promises, taken [rounds]loop.Promise[struct{}]
		waits, got := make(chan struct{}, 4), make(chan error, 1)
		wait := func(th *loop.Thread) { th.Loop().Go(func(*loop.Thread) { waits <- struct{}{} }) }
		ls.Go(0, func(th *loop.Thread) {
			sub := topic.Subscribe(th, workers)
			for n := range promises {
				wait(th)
				if i, err := th.AwaitAny(-1, &promises[n], sub); i != 0 || err != nil {
					t.Errorf("%d, %v", i, err)
				}
				_, _ = taken[n].Await(th, -1) // it is at something else
			}
			_, _ = th.AwaitAny(-1, th.Loop().Stopped())
		})
		<-waits
		ls.Go(1, func(th *loop.Thread) {
			sub := topic.Subscribe(th, workers)
			for range promises {
				wait(th)
				_, err := sub.Receive(-1)
				got <- err
			}
		})
		<-waits
		for n := range promises {
			if n > 0 {
				<-waits
				<-waits
			}
			loops.On(t, ls.All[0], func(*loop.Loop) {
				promises[n].Resolve(struct{}{})
				publish(topic, "x")
			})
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(limit):
				t.Fatal("nobody is told")
			}
			taken[n].Resolve(struct{}{})
		}
	})
}
