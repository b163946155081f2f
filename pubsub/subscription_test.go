package pubsub_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// publish publishes texts of one letter each.
func publish(topic *pubsub.Topic, letters string) {
	for _, letter := range letters {
		topic.Publish([]byte(string(letter)))
	}
}

// rest reads what there is without waiting.
func rest(s *pubsub.Subscription) string {
	var b strings.Builder
	for m := s.Next(); m != nil; m = s.Next() {
		b.Write(m.Data)
	}
	return b.String()
}

func TestWhatComesFirst(t *testing.T) {
	var hub pubsub.Hub
	topic := hub.Topic("room")
	publish(topic, "1")
	second := topic.Publish([]byte("2"))
	third := hub.Topic("room").Publish([]byte("3"))
	loops.Run(t, func(th *loop.Thread) {
		for _, row := range []struct {
			name string
			o    pubsub.Options
			want string
		}{
			{"nothing", pubsub.Options{}, ""},
			{"last value", pubsub.Options{History: 1}, "3"},
			{"all there is", pubsub.Options{History: 100}, "123"},
			{"more than the queue", pubsub.Options{History: 3, Queue: 1}, "123"},
			{"negative", pubsub.Options{History: -1, Queue: -1}, ""},
			{"after", pubsub.Options{After: second.ID}, "3"},
			{"after, not history", pubsub.Options{After: second.ID, History: 3}, "3"},
			{"after the last", pubsub.Options{After: third.ID}, ""},
			{"after one that is not known", pubsub.Options{After: "x"}, "123"},
			{"own queue", pubsub.Options{History: 2, Policy: pubsub.DropNewest}, "23"},
			{"own queue, after", pubsub.Options{After: second.ID, Policy: pubsub.DropNewest}, "3"},
			{"disconnect", pubsub.Options{History: 2, Queue: 1, Policy: pubsub.Disconnect}, "23"},
		} {
			sub := topic.Subscribe(th, row.o)
			if got := rest(sub); got != row.want || sub.Dropped() != 0 || sub.Err() != nil {
				t.Errorf("%s: %q, dropped %d, %v; want %q", row.name, got, sub.Dropped(), sub.Err(),
					row.want)
			}
			sub.Unsubscribe()
		}
	})
}

func TestPolicies(t *testing.T) {
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		topic := hub.Topic("room")
		subscribe := func(p pubsub.Policy) *pubsub.Subscription {
			return topic.Subscribe(th, pubsub.Options{Queue: 4, Policy: p})
		}
		oldest, newest, disconnect := subscribe(pubsub.DropOldest), subscribe(pubsub.DropNewest),
			subscribe(pubsub.Disconnect)
		expect := func(name string, s *pubsub.Subscription, got string, dropped int, err error) {
			t.Helper()
			if r := rest(s); r != got || s.Dropped() != dropped || s.Err() != err {
				t.Errorf("%s: %q, dropped %d, %v; want %q, %d, %v", name, r, s.Dropped(), s.Err(),
					got, dropped, err)
			}
		}
		publish(topic, "abcd") // just so
		expect("oldest, full", oldest, "abcd", 0, nil)
		expect("newest, full", newest, "abcd", 0, nil)
		expect("disconnect, full", disconnect, "abcd", 0, nil)

		publish(topic, "efghij")
		if n := oldest.Dropped(); n != 2 { // it is known before it is found
			t.Errorf("dropped %d", n)
		}
		if m := newest.Next(); string(m.Data) != "e" {
			t.Errorf("newest: %q", m.Data)
		}
		publish(topic, "kl") // room for one
		expect("oldest", oldest, "ijkl", 4, nil)
		expect("newest", newest, "fghk", 3, nil)
		if !disconnect.Ready() {
			t.Error("disconnect: nobody is told")
		}
		expect("disconnect", disconnect, "", 0, pubsub.ErrLagged)
		if _, err := disconnect.Receive(-1); err != pubsub.ErrLagged {
			t.Errorf("Receive: %v", err)
		}
		if n, _, _ := pubsub.Subscribers(&hub, "room"); n != 2 {
			t.Errorf("%d are subscribed", n)
		}
		publish(topic, "m")
		expect("oldest, in the end", oldest, "m", 4, nil)
		expect("newest, in the end", newest, "m", 3, nil)
		expect("disconnect, in the end", disconnect, "", 0, pubsub.ErrLagged)
	})
}

// A queue is bounded in bytes, too, whatever its length.
func TestPoliciesCountBytes(t *testing.T) {
	hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 10 << 10}}
	loops.Run(t, func(th *loop.Thread) {
		topic := hub.Topic("room")
		var subs [3]*pubsub.Subscription
		for p := range subs {
			subs[p] = topic.Subscribe(th, pubsub.Options{Policy: pubsub.Policy(p)})
		}
		big := func(b string) { topic.Publish([]byte(strings.Repeat(b, 4<<10))) }
		for _, letter := range "abcde" {
			big(string(letter))
		}
		first := func(s *pubsub.Subscription) string {
			got := ""
			for m := s.Next(); m != nil; m = s.Next() {
				got += string(m.Data[:1])
			}
			return got
		}
		if got := first(subs[pubsub.DropOldest]); got != "de" ||
			subs[pubsub.DropOldest].Dropped() != 3 {
			t.Errorf("oldest: %q", got)
		}
		if got := first(subs[pubsub.DropNewest]); got != "ab" ||
			subs[pubsub.DropNewest].Dropped() != 3 {
			t.Errorf("newest: %q", got)
		}
		if got := first(subs[pubsub.Disconnect]); got != "" ||
			subs[pubsub.Disconnect].Err() != pubsub.ErrLagged {
			t.Errorf("disconnect: %q", got)
		}
		// What is larger than all of it comes all the same, alone.
		big("f")
		topic.Publish([]byte(strings.Repeat("g", 20<<10)))
		if got := first(subs[pubsub.DropOldest]); got != "g" {
			t.Errorf("a large one: %q", got)
		}
		if _, held, _ := pubsub.Subscribers(&hub, "room"); held != 1 {
			t.Errorf("%d messages are held", held)
		}
	})
}

func TestReceive(t *testing.T) {
	var hub pubsub.Hub
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		done := make(chan struct{})
		ls.Go(0, func(th *loop.Thread) {
			defer close(done)
			topic := hub.Topic("room")
			sub := topic.Subscribe(th, pubsub.Options{})
			if _, err := sub.Receive(time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("nothing comes: %v", err)
			}
			go publish(topic, "a") // a goroutine
			if m, err := sub.Receive(limit); err != nil || string(m.Data) != "a" {
				t.Errorf("%v, %v", m, err)
			}
			// another thread of the loop waits, and has it to itself
			child := th.Go(func(th *loop.Thread) error {
				if _, err := sub.Receive(limit); err != net.ErrClosed {
					t.Errorf("unsubscribed by another: %v", err)
				}
				return nil
			})
			th.Yield()
			if _, err := th.AwaitAny(0, sub); err != loop.ErrAwaited {
				t.Errorf("two at once: %v", err)
			}
			sub.Unsubscribe()
			sub.Unsubscribe()
			_, _ = child.End().Await(th, limit)
			if i, err := th.AwaitAny(limit, sub); i != 0 || err != nil || sub.Next() != nil ||
				sub.Err() != net.ErrClosed {
				t.Errorf("afterwards: %d, %v, %v", i, err, sub.Err())
			}
		})
		<-done
	})
}

// A reader that always finds something does not hold its loop.
func TestReceiveGivesWay(t *testing.T) {
	hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 1 << 30}}
	loops.Run(t, func(th *loop.Thread) {
		topic := hub.Topic("room")
		sub := topic.Subscribe(th, pubsub.Options{Queue: pubsub.MaxQueue})
		ran := false
		th.Loop().Go(func(*loop.Thread) { ran = true })
		for range 1000 {
			topic.Publish(nil)
		}
		for n := 0; !ran; n++ {
			if n == 1000 {
				t.Fatal("nobody else runs")
			}
			_, _ = sub.Receive(-1)
		}
	})
}

// However a thread ends, its subscription does.
func TestSubscriptionEndsWithItsThread(t *testing.T) {
	var hub pubsub.Hub
	topic := hub.Topic("room")
	ls := loops.Start(t, modes.Plain, nil, nil)
	ls.Panics.Expect()
	for name, end := range map[string]func(th *loop.Thread){
		"return": func(*loop.Thread) {},
		"panic":  func(*loop.Thread) { panic("on purpose") },
		"canceled": func(th *loop.Thread) {
			th.Go(func(th *loop.Thread) error {
				_, err := topic.Subscribe(th, pubsub.Options{}).Receive(-1)
				return err
			})
			th.Yield()
			th.Cancel()
		},
	} {
		gone := make(chan struct{})
		ls.Go(0, func(th *loop.Thread) {
			th.Defer(func() { close(gone) }) // after the others
			topic.Subscribe(th, pubsub.Options{})
			topic.Subscribe(th, pubsub.Options{Policy: pubsub.DropNewest})
			end(th)
		})
		<-gone
		loops.On(t, ls.All[0], func(*loop.Loop) {})
		if n, _, _ := pubsub.Subscribers(&hub, "room"); n != 0 {
			t.Errorf("%s: %d are subscribed", name, n)
		}
	}
}

// A thread that changes topics all the time leaves nothing behind, and its last subscriptions still
// close when it ends.
func TestTopicsAreChanged(t *testing.T) {
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		before := th.Mark()
		for i := range 1000 {
			one := hub.Topic("one").Subscribe(th, pubsub.Options{Policy: pubsub.Policy(i % 3)})
			two := hub.Topic("two").Subscribe(th, pubsub.Options{})
			one.Unsubscribe()
			two.Unsubscribe()
		}
		if n := th.Mark() - before; n != 2 {
			t.Errorf("%d deferred calls", n)
		}
		sub := hub.Topic("one").Subscribe(th, pubsub.Options{})
		th.RunDeferred(before)
		if sub.Err() != net.ErrClosed {
			t.Errorf("%v", sub.Err())
		}
		sub = hub.Topic("one").Subscribe(th, pubsub.Options{}) // is deferred anew
		th.RunDeferred(before)
		if n, _, _ := pubsub.Subscribers(&hub, "one"); n != 0 || sub.Err() != net.ErrClosed {
			t.Errorf("%d are subscribed", n)
		}
	})
	if n := pubsub.Threads(&hub); n != 0 {
		t.Errorf("%d threads are remembered", n)
	}
}

// Thousands of subscribers end at once, during publishing: some while they wait, and some before
// they ever have.
func TestThousandsVanish(t *testing.T) {
	const many = 3000
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			topic := hub.Topic("room")
			for {
				select {
				case <-stop:
					return
				default:
					publish(topic, "x")
					time.Sleep(50 * time.Microsecond)
				}
			}
		}()
		subscribed := make(chan struct{}, many)
		for i := range many {
			ls.Go(i, func(th *loop.Thread) {
				sub := hub.Topic("room").Subscribe(th,
					pubsub.Options{Policy: pubsub.Policy(i % 2 * i % 3)})
				subscribed <- struct{}{}
				for {
					if _, err := sub.Receive(-1); err != nil {
						return
					}
				}
			})
		}
		for range many {
			<-subscribed
		}
		ls.Stop(0)
		close(stop)
		<-stopped
		if n, held, room := pubsub.Subscribers(&hub, "room"); n != 0 || held > 64 || room > 64 {
			t.Errorf("left: %d subscribers, %d messages, room for %d", n, held, room)
		}
		publish(hub.Topic("room"), "x") // no thread is left to be told
	})
}
