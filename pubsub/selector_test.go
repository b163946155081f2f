package pubsub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// selector is a script that selects, too. At once it brings what others publish meanwhile.
type selector struct {
	script
	at   map[pubsub.Selection]*pubsub.Feed
	soon func(to *pubsub.Feed)
	err  error
}

func (s *selector) Select(from pubsub.Selection, to *pubsub.Feed) error {
	s.note("select %+v", from)
	if s.at == nil {
		s.at = make(map[pubsub.Selection]*pubsub.Feed)
	}
	if s.at[from] = to; s.soon != nil {
		s.soon(to)
	}
	return s.err
}

func (s *selector) Unselect(from pubsub.Selection) { s.note("unselect %+v", from) }

// to is a message of another process to a topic.
func to(topic, id string) *pubsub.Message {
	m := theirs(id, 0)
	m.Topic = topic
	return m
}

// An engine brings what others publish to topics that match; this process's own come without it. A
// group has from the engine all that it gets.
func TestSelector(t *testing.T) {
	hub, e := new(pubsub.Hub), new(selector)
	hub.Connect(e)
	group := pubsub.Selection{Name: "jobs", Group: "workers"}
	rooms := pubsub.Selection{Name: "room.*", Pattern: true}
	both := pubsub.Selection{Name: "lwango//x.>", Pattern: true, Group: "workers"}
	loops.Run(t, func(th *loop.Thread) {
		e.soon = func(to *pubsub.Feed) {
			to.Offer([]*pubsub.Message{theirs("early", 0)})
		}
		{ // it comes before Subscribe has returned
			one := hub.Topic("jobs").Subscribe(th, pubsub.Options{Group: "workers"})
			two := hub.Topic("jobs").Subscribe(th, pubsub.Options{Group: "workers"})
			publish(hub.Topic("jobs"), "a")
			e.at[group].Deliver([]*pubsub.Message{to("jobs", "1"), to("jobs", "a")})
			if m := two.Next(); string(m.Data) != "early" {
				t.Errorf("%s", m.Data)
			}
			if m := one.Next(); string(m.Data) != "1" || m.Topic != "jobs" {
				t.Errorf("%s of %s", m.Data, m.Topic)
			}
			if got := rest(two); got != "a" {
				t.Errorf("%q", got)
			}
			one.Unsubscribe()
			two.Unsubscribe()
			e.soon = nil
		}
		sub := hub.Pattern("room.*").Subscribe(th, pubsub.Options{})
		inLwango := hub.Pattern("lwango/x.>").Subscribe(th, pubsub.Options{Group: "workers"})
		exact := hub.Topic("room.1").Subscribe(th, pubsub.Options{})
		publish(hub.Topic("room.1"), "b")
		publish(hub.Topic("lwango/x.1"), "b")
		e.at[rooms].Deliver([]*pubsub.Message{to("room.1", "2"), to("lwango/x", "secret")})
		e.feed("room.1").Deliver([]*pubsub.Message{theirs("2", 0)})
		e.at[both].Deliver([]*pubsub.Message{to("lwango//x.2", "3")})
		if got, also := rest(sub), rest(exact); got != "b2" || also != "b2" {
			t.Errorf("%q; by its name %q", got, also)
		}
		if m := inLwango.Next(); m == nil || m.Topic != "lwango/x.2" || inLwango.Next() != nil {
			t.Errorf("%v", m)
		}
		pubsub.Bytes(hub)
		feed := e.at[rooms]
		sub.Unsubscribe()
		feed.Deliver([]*pubsub.Message{to("room.1", "late")})
		e.err = errors.ErrUnsupported
		e.soon = func(to *pubsub.Feed) { to.Offer([]*pubsub.Message{theirs("early", 0)}) }
		if sub := hub.Pattern(">").Subscribe(th, pubsub.Options{}); sub.Err() != e.err {
			t.Errorf("%v", sub.Err())
		}
		pubsub.Bytes(hub)
	})
	want := []string{
		"select {Name:jobs Pattern:false Group:workers}", "publish jobs a",
		"unselect {Name:jobs Pattern:false Group:workers}",
		"select {Name:room.* Pattern:true Group:}",
		"select {Name:lwango//x.> Pattern:true Group:workers}", "follow room.1",
		"publish room.1 b", "publish lwango//x.1 b", "unselect {Name:room.* Pattern:true Group:}",
		"select {Name:> Pattern:true Group:}", "unfollow room.1",
		"unselect {Name:lwango//x.> Pattern:true Group:workers}",
	}
	for i, asked := range e.asked {
		if i >= len(want) || asked != want[i] {
			t.Fatalf("%d: the engine was asked to %q", i, e.asked)
		}
	}
}

// A queue group whose members do not receive takes half of its queue, and never more: what it does
// not take may be for another process. Progress tells what its members have left.
func TestQueueGroupHoldsBack(t *testing.T) {
	hub, e := new(pubsub.Hub), new(selector)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		sub := hub.Topic("jobs").Subscribe(th, pubsub.Options{Group: "workers", Queue: 8})
		f := e.at[pubsub.Selection{Name: "jobs", Group: "workers"}]
		var all []*pubsub.Message
		for i := range 20 {
			all = append(all, to("jobs", fmt.Sprint(i)))
		}
		rest := f.Offer(all)
		for start := time.Now(); time.Since(start) < 300*time.Millisecond; _ = th.Sleep(
			time.Millisecond) {
			rest = f.Offer(rest)
		}
		if len(rest) != 16 {
			t.Errorf("%d are left", len(rest))
		}
		sub.Next()
		if rest = f.Offer(rest); len(rest) != 15 {
			t.Errorf("%d are left", len(rest))
		}
		sub.Unsubscribe()
		if rest := f.Offer(rest); rest != nil {
			t.Errorf("%d are left", len(rest))
		}
		if taken, received := f.Progress(); taken != 5 || received != 1 || sub.Dropped() != 0 {
			t.Errorf("%d taken, %d received, %d dropped", taken, received, sub.Dropped())
		}
		pubsub.Bytes(hub)
	})
}
