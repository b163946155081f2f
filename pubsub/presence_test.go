package pubsub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A name comes once, however often it joins, and goes when it has left as often. Who comes and goes
// within a moment is no news.
func TestPresence(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		p := hub.Topic("lwango/people").Presence()
		for {
			sub := p.Subscribe(th, pubsub.Options{})
			if p.Leave("Ann"); !sub.Ready() {
				t.Error("the list is not there")
			}
			m := sub.Next()
			if got := string(m.Data); got != `{"topic":"lwango/people","list":true,"count":0}` {
				t.Error(got)
			}
			began := time.Now()
			for _, name := range []string{"Cat", "Ann", "Ann", "Bob"} {
				p.Join(name)
			}
			p.Leave("Bob")
			p.Leave("Ann")
			m, err := sub.Receive(limit)
			if err != nil {
				t.Error(err)
				return
			}
			if time.Since(began) > 2*pubsub.PresenceSoon {
				sub.Unsubscribe()
				p.Leave("Ann")
				p.Leave("Cat")
				wait.Until(t, "nobody is there", func() bool { return pubsub.Rosters(&hub) == 0 })
				continue // the machine was busy, and Bob may have been seen
			}
			if got := string(m.Data); m.Topic != "lwango/people" ||
				got != `{"topic":"lwango/people","joined":["Ann","Cat"],"count":2}` {
				t.Errorf("%s: %s", m.Topic, got)
			}
			p.Leave("Ann")
			p.Join("Dan")
			late := hub.Topic("lwango/people").Presence().Subscribe(th, pubsub.Options{})
			m, err = sub.Receive(limit)
			if err != nil || string(m.Data) !=
				`{"topic":"lwango/people","joined":["Dan"],"left":["Ann"],"count":2}` {
				t.Errorf("%s, %v", m.Data, err)
			}
			first, again := late.Next(), late.Next()
			if got := string(first.Data); again != m ||
				got != `{"topic":"lwango/people","list":true,"joined":["Ann","Cat"],"count":2}` {
				t.Errorf("%s, and then another change", got)
			}
			if c := p.List(); !slices.Equal(c.Joined, []string{"Cat", "Dan"}) || !c.List || c.Stale != "" {
				t.Errorf("%+v", c)
			}
			p.Publish([]byte("hello"))
			if m = late.Next(); m == nil || string(m.Data) != "hello" {
				t.Error("what was published is not there")
			}
			p.Leave("Cat")
			p.Leave("Dan")
			wait.Until(t, "nothing is kept", func() bool { return pubsub.Rosters(&hub) == 0 })
			return
		}
	})
}

// All policies and ways to read give the list first, once.
func TestPresenceListIsFirst(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		p := hub.Topic("people").Presence()
		p.Publish([]byte("nobody hears it"))
		for _, policy := range []pubsub.Policy{
			pubsub.DropOldest, pubsub.DropNewest, pubsub.Disconnect,
		} {
			for _, read := range []func(*pubsub.Subscription) *pubsub.Message{
				(*pubsub.Subscription).Next,
				(*pubsub.Subscription).Remaining,
				func(s *pubsub.Subscription) (next *pubsub.Message) {
					send := func(m *pubsub.Message) bool { next = m; return true }
					if s.SendNext(send) || next != nil {
						return next
					}
					return s.Next()
				},
			} {
				for _, keep := range []bool{false, true} {
					s := p.Subscribe(th, pubsub.Options{Policy: policy, Keep: keep})
					p.Publish([]byte("said"))
					o := new(rooms.Observer)
					for range 2 {
						if m := read(s); m != nil {
							o.Take(m)
						}
					}
					if o.Here == nil || len(o.Said) != 1 || s.Next() != nil || s.Ready() {
						t.Errorf("policy %d: %+v", policy, o)
					}
					s.Unsubscribe()
				}
			}
		}
		for _, o := range []pubsub.Options{{History: 1}, {After: "x"}, {Group: "x"}} {
			if s := p.Subscribe(th, o); s.Err() == nil || errors.Is(s.Err(), pubsub.ErrLagged) {
				t.Errorf("%+v: %v", o, s.Err())
			}
		}
	})
}

// 2,000 come as fast as they can, from several goroutines, and some go. Those who are there get few
// messages, with each name once; whoever asks for the list has the same as whoever was there all
// the time; and all of that takes little time.
func TestPresenceOfThousands(t *testing.T) {
	t.Parallel()
	const many, sources = 2000, 4
	var hub pubsub.Hub
	p := hub.Topic("people").Presence()
	loops.Run(t, func(th *loop.Thread) {
		sub := p.Subscribe(th, pubsub.Options{Queue: 1 << 12})
		began := time.Now()
		var all sync.WaitGroup
		for i := range sources {
			all.Go(func() {
				for n := i; n < many; n += sources {
					p.Join(fmt.Sprint("Person-", n))
					if n%10 == 0 {
						p.Leave(fmt.Sprint("Person-", n-n%20))
					}
					if n%100 < sources {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		all.Wait()
		var early, at rooms.Observer
		changes, stay := 0, many-many/20
		var late *pubsub.Subscription
		for len(early.Here) < stay || early.Names() != strings.Join(p.List().Joined, " ") || late == nil {
			m, err := sub.Receive(limit)
			if err != nil {
				t.Error(err)
				return
			}
			early.Take(m)
			if changes++; late == nil && len(early.Here) > 0 {
				late = p.Subscribe(th, pubsub.Options{Queue: 1 << 12})
			}
		}
		for m := late.Next(); m != nil; m = late.Next() {
			at.Take(m)
		}
		took := time.Since(began)
		if at.Names() != early.Names() || sub.Dropped() > 0 || len(early.Wrong)+len(at.Wrong) > 0 {
			t.Errorf("a latecomer knows %d of %d; %d lost; %q, %q", len(at.Here), len(early.Here),
				sub.Dropped(), early.Wrong, at.Wrong)
		}
		if most := 3 + int(took/pubsub.PresenceSoon); changes > most {
			t.Errorf("%d changes in %v", changes, took)
		}
		if took > limit/2 && !race.Enabled {
			t.Errorf("it has taken %v", took)
		}
		t.Logf("%d changes in %v", changes, took)
	})
}
