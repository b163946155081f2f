package pubsub_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Deliver does not overrun a subscriber that reads, neither by number nor in bytes, and does not
// wait long for one that does not.
func TestDeliverWaits(t *testing.T) {
	const messages = 100
	for _, row := range []struct {
		name string
		size func(i int) int
	}{
		{"many", func(int) int { return 10 }},
		{"large", func(int) int { return 4 << 10 }},
		{"larger than all", func(i int) int { return 10 + i%50/49*(100<<10) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
				hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 64 << 10}}
				e := new(script)
				hub.Connect(e)
				const subscribers = 12
				subscribed, read := make(chan struct{}, subscribers), make(chan error, subscribers)
				for i := range subscribers {
					ls.Go(i, func(th *loop.Thread) {
						sub := hub.Topic("room").Subscribe(th,
							pubsub.Options{Queue: i, Policy: pubsub.Policy(i % 3)})
						subscribed <- struct{}{}
						for n := range messages {
							m, err := sub.Receive(limit)
							if err == nil && m.ID != fmt.Sprint("theirs-", n) {
								err = fmt.Errorf("subscriber %d: %s, want %d", i, m.ID, n)
							}
							if err != nil {
								read <- err
								return
							}
						}
						read <- nil
					})
				}
				stuck := make(chan *pubsub.Subscription, 1)
				ls.Go(0, func(th *loop.Thread) {
					stuck <- hub.Topic("room").Subscribe(th, pubsub.Options{})
					_, _ = th.AwaitAny(-1, th.Loop().Stopped())
				})
				for range subscribers {
					<-subscribed
				}
				sub := <-stuck
				var all []*pubsub.Message
				for i := range messages {
					all = append(all, theirs(fmt.Sprint(i), 0))
					all[i].Data = make([]byte, row.size(i))
				}
				e.feed("room").Deliver(all)
				for range subscribers {
					if err := <-read; err != nil {
						t.Error(err)
					}
				}
				loops.On(t, ls.All[0], func(*loop.Loop) {
					if sub.Dropped() == 0 {
						t.Error("the one who does not read has lost nothing")
					}
				})
			})
		})
	}
}

// Offer does not wait for a subscriber that does not read: it gives back what has no room, so that
// an engine can go on with other topics. In the end the subscriber loses messages all the same.
func TestOffer(t *testing.T) {
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		e := new(script)
		hub.Connect(e)
		stuck := make(chan *pubsub.Subscription, 1)
		ls.Go(0, func(th *loop.Thread) {
			stuck <- hub.Topic("room").Subscribe(th, pubsub.Options{Queue: 8})
			_, _ = th.AwaitAny(-1, th.Loop().Stopped())
		})
		sub := <-stuck
		var all []*pubsub.Message
		for i := range 20 {
			all = append(all, theirs(fmt.Sprint(i), 0))
		}
		f := e.feed("room")
		rest := f.Offer(all)
		if len(rest) == 0 || len(rest) == len(all) || rest[len(rest)-1] != all[len(all)-1] {
			t.Fatalf("%d of %d messages are left", len(rest), len(all))
		}
		if again := f.Offer(rest); len(again) != len(rest) {
			t.Errorf("%d are left, and nothing was read; then %d", len(rest), len(again))
		}
		f.Deliver(rest)
		loops.On(t, ls.All[0], func(*loop.Loop) {
			if sub.Dropped() != 20-8 {
				t.Errorf("%d were dropped", sub.Dropped())
			}
		})
	})
}
