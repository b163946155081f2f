package pubsub_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// offer gives a feed all messages, as an engine that catches up.
func offer(f *pubsub.Feed, ms []*pubsub.Message) {
	for ms = f.Offer(ms); len(ms) > 0; ms = f.Offer(ms) {
		time.Sleep(time.Millisecond)
	}
}

// Offer does not overrun a subscriber that reads, neither by number nor in bytes, and does not
// wait long for one that does not.
func TestOfferWaits(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
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
				offer(e.feed("room"), all)
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
	t.Parallel()
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
		offer(f, rest)
		loops.On(t, ls.All[0], func(*loop.Loop) {
			if sub.Dropped() != 20-8 {
				t.Errorf("%d were dropped", sub.Dropped())
			}
		})
	})
}

// What other processes publish is appended at once: a subscriber that does not read costs the
// others nothing, whatever its policy, and misses what it says.
func TestDeliver(t *testing.T) {
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		reader := room.Subscribe(th, pubsub.Options{Queue: 4, Policy: pubsub.Disconnect})
		var slow []*pubsub.Subscription
		for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest, pubsub.Disconnect} {
			slow = append(slow, room.Subscribe(th, pubsub.Options{Queue: 8, Policy: policy}))
		}
		const messages = 1000
		for i := range messages {
			want := fmt.Sprint(i)
			e.feed("room").Deliver([]*pubsub.Message{theirs(want, 0)})
			if m := reader.Next(); m == nil || string(m.Data) != want {
				t.Fatalf("message %d: %v, %v", i, m, reader.Err())
			}
		}
		for i, want := range []string{"992", "0", ""} {
			m := slow[i].Next()
			if m == nil && want != "" || m != nil && string(m.Data) != want {
				t.Errorf("policy %d: %v, want %q", i, m, want)
			}
			if i < 2 && slow[i].Dropped() != messages-8 {
				t.Errorf("policy %d: %d dropped", i, slow[i].Dropped())
			}
		}
		if slow[2].Err() != pubsub.ErrLagged {
			t.Error(slow[2].Err())
		}
	})
}

// Offer waits once for a subscriber that does not read, and not for each batch, whatever that reads
// then. It does so again after another outage.
func TestOfferWaitsOnce(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		reader := room.Subscribe(th, pubsub.Options{Queue: 64})
		stuck := room.Subscribe(th, pubsub.Options{Queue: 8})
		f, n := e.feed("room"), 0
		more := func(count int) (ms []*pubsub.Message) {
			for range count {
				ms = append(ms, theirs(fmt.Sprint(n), 0))
				n++
			}
			return ms
		}
		read := func() {
			for reader.Next() != nil {
			}
		}
		rest, tries := f.Offer(more(16)), 0
		if len(rest) != 12 {
			t.Fatalf("%d are left", len(rest))
		}
		for ; len(rest) > 0; tries++ {
			_ = th.Sleep(time.Millisecond)
			read()
			rest = f.Offer(rest)
		}
		if tries < 10 {
			t.Errorf("it was waited for %d ms", tries)
		}
		for i := range 20 {
			if read(); i == 10 {
				for stuck.Next() != nil {
				}
			}
			if rest := f.Offer(more(16)); rest != nil {
				t.Fatalf("%d are left", len(rest))
			}
		}
		if reader.Dropped() != 0 || stuck.Dropped() != n-2*8 {
			t.Errorf("%d and %d dropped", reader.Dropped(), stuck.Dropped())
		}
		pubsub.Later(f, 11*time.Second)
		for stuck.Next() != nil {
		}
		read()
		if rest := f.Offer(more(16)); len(rest) != 12 {
			t.Errorf("another outage, and %d are left", len(rest))
		}
	})
}

// A subscriber is not to blame for a loop that does not get to it, nor for an engine that does not
// get to Offer.
func TestOfferBehindBusyLoop(t *testing.T) {
	t.Parallel()
	const messages = 100
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		e := new(script)
		hub.Connect(e)
		subscribed, read := make(chan struct{}), make(chan error, 1)
		ls.Go(0, func(th *loop.Thread) {
			sub := hub.Topic("room").Subscribe(th,
				pubsub.Options{Queue: 8, Policy: pubsub.Disconnect})
			close(subscribed)
			for n := range messages {
				if m, err := sub.Receive(limit); err != nil || m.ID != fmt.Sprint("theirs-", n) {
					read <- fmt.Errorf("%v, %v, want %d", m, err, n)
					return
				}
			}
			read <- nil
		})
		<-subscribed
		var all []*pubsub.Message
		for i := range messages {
			all = append(all, theirs(fmt.Sprint(i), 0))
		}
		f := e.feed("room")
		end := make(chan struct{})
		must.Do(t, ls.All[0].Post(func() { <-end }))
		rest := f.Offer(all)
		for range 150 { // more than the clocks of a subscriber and of steps of 10 ms hold
			time.Sleep(5 * time.Millisecond)
			rest = f.Offer(rest)
		}
		close(end)
		for len(rest) > 0 {
			pubsub.Later(f, time.Second) // the engine had no processor meanwhile
			rest = f.Offer(rest)
			time.Sleep(time.Millisecond)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

// Offer does not go at the pace of a subscriber that takes 40 ms for each message: reading puts off
// the time when it is passed, but not for ever. Time passes by calls of Offer, 10 ms for each.
func TestOfferPassesTheSlow(t *testing.T) {
	t.Parallel()
	const messages = 250
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		sub := hub.Topic("room").Subscribe(th, pubsub.Options{Queue: 32})
		f, read, calls := e.feed("room"), 0, 0
		for i := range messages {
			for late := []*pubsub.Message{theirs(fmt.Sprint(i), 0)}; len(late) > 0; {
				late = f.Offer(late)
				pubsub.Later(f, 10*time.Millisecond)
				th.Yield()
				if calls++; calls%4 == 0 && sub.Next() != nil {
					read++
				}
			}
		}
		// Without putting off it would read 12 in half a second, and if it were never passed, nearly all.
		if read < 50 || read > messages-100 {
			t.Errorf("it had read %d of %d messages after %d calls", read, messages, calls)
		}
	})
}

// What an engine has found to be lost counts as dropped, in its place: a subscriber has what came
// before, and learns the rest by its policy. History does not reach back beyond it.
func TestLost(t *testing.T) {
	for _, lost := range []int{1, 3, 63, 64, 100000} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			var hub pubsub.Hub
			e := new(script)
			hub.Connect(e)
			loops.Run(t, func(th *loop.Thread) {
				room := hub.Topic("room")
				var subs []*pubsub.Subscription
				for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest,
					pubsub.Disconnect} {
					subs = append(subs, room.Subscribe(th, pubsub.Options{Policy: policy}))
				}
				f := e.feed("room")
				f.Loaded(nil)
				f.Deliver([]*pubsub.Message{theirs("1", 0)})
				for i, sub := range subs {
					if got := rest(sub); got != "1" || sub.Dropped() > 0 {
						t.Errorf("policy %d: %q, %d dropped", i, got, sub.Dropped())
					}
				}
				f.Deliver([]*pubsub.Message{pubsub.Lost(lost), theirs("2", 0)})
				publish(room, "3")
				if n := subs[0].Dropped(); n != lost {
					t.Errorf("%d are dropped before they are looked for", n)
				}
				for i, want := range []string{"23", "23", ""} {
					if got := rest(subs[i]); got != want {
						t.Errorf("policy %d: %q, want %q", i, got, want)
					}
					if n := subs[i].Dropped(); i < 2 && n != lost {
						t.Errorf("policy %d: %d dropped", i, n)
					}
				}
				if subs[2].Err() != pubsub.ErrLagged {
					t.Error(subs[2].Err())
				}
				for _, o := range []pubsub.Options{{History: 9}, {After: "theirs-1"}, {After: "theirs-0"}} {
					o.Policy = pubsub.Disconnect
					late := room.Subscribe(th, o)
					if got := rest(late); got != "23" || late.Forgotten() == 0 || late.Dropped() > 0 {
						t.Errorf("%+v: %q, %d forgotten, %d dropped, %v", o, got, late.Forgotten(),
							late.Dropped(), late.Err())
					}
				}
				if late := room.Subscribe(th, pubsub.Options{After: "theirs-2"}); rest(late) != "3" {
					t.Error("after the gap")
				}
				pubsub.Bytes(&hub)
			})
		})
	}
}

// A message says which one it is of its process's to the topic, so that a missing one is found.
func TestCount(t *testing.T) {
	var hub pubsub.Hub
	hub.Connect(new(script))
	for i := range uint64(3) {
		if n := hub.Topic("room").Publish(nil).Count; n != i+1 {
			t.Errorf("message %d: %d", i+1, n)
		}
	}
	if n := hub.Topic("room").PublishFor(time.Second, nil).Count; n != 0 {
		t.Errorf("one whose loss is none: %d", n)
	}
	if n := hub.Topic("hall").Publish(nil).Count; n != 1 {
		t.Errorf("the first of another topic: %d", n)
	}
}

// What comes in time among late messages does not give a subscriber its time anew, and nor does one
// subscriber after another have its own: the others would wait for ever beside a publisher that is
// always late. An outage is over when nothing late has come for a while.
func TestOfferAmongNews(t *testing.T) {
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		_ = room.Subscribe(th, pubsub.Options{}) // else the topic is another one each time
		f := e.feed("room")
		one := []*pubsub.Message{theirs("1", 0)}
		late := func() (waits bool) { return len(f.Offer(one)) > 0 }
		slow := func() *pubsub.Subscription { // one with more than half of its queue, and not all
			sub := room.Subscribe(th, pubsub.Options{Queue: 8})
			for range 6 {
				f.Deliver(one)
			}
			for range 2 {
				_ = th.Sleep(time.Millisecond) // the loop tells it
			}
			return sub
		}
		waits := func(sub *pubsub.Subscription) (n int) { // for how many steps of 10 ms
			for ; late(); n++ {
				pubsub.Later(f, 10*time.Millisecond)
			}
			sub.Unsubscribe()
			return n
		}
		if n := waits(slow()); n < 45 || n > 51 { // a loop without a processor adds to a step
			t.Errorf("it waits for %d ms", 10*n)
		}
		f.Deliver(one)
		if late() {
			t.Error("it waits again after a message in time")
		}
		for all := 50; ; {
			n := waits(slow())
			if all += n; n == 0 {
				break
			}
			if all > 1050 {
				t.Fatalf("it has waited for %d ms", 10*all)
			}
		}
		last := slow()
		if late() {
			t.Error("it waits for another one, after ten seconds")
		}
		pubsub.Later(f, 11*time.Second)
		for last.Next() != nil {
		}
		for range 6 {
			f.Deliver(one)
		}
		if !late() {
			t.Error("it does not wait after another outage")
		}
	})
}

// A gap as long as a queue is not a reader's fault: what comes behind it waits for the reader.
func TestOfferBehindGap(t *testing.T) {
	for _, lost := range []int{10, 64, 1000} {
		for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest} {
			var hub pubsub.Hub
			e := new(script)
			hub.Connect(e)
			loops.Run(t, func(th *loop.Thread) {
				sub, got := hub.Topic("room").Subscribe(th, pubsub.Options{Policy: policy}), 0
				const messages = 200
				late := []*pubsub.Message{pubsub.Lost(lost)}
				for i := range messages {
					late = append(late, theirs(fmt.Sprint(i), 0))
				}
				for len(late) > 0 {
					for range 10 { // the reader is not that quick
						late = e.feed("room").Offer(late)
					}
					for sub.Next() != nil {
						got++
					}
				}
				if got != messages || sub.Dropped() != lost {
					t.Errorf("gap of %d, policy %d: %d came, %d dropped", lost, policy, got,
						sub.Dropped())
				}
			})
		}
	}
}
