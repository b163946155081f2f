package pubsub_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

func newPresence(hub *pubsub.Hub) *pubsub.Presence {
	topic := hub.Topic("people")
	return &pubsub.Presence{Topic: topic, Publish: func(c pubsub.Change) {
		topic.Publish(fmt.Appendf(nil, "+%s -%s %d", strings.Join(c.Joined, ","),
			strings.Join(c.Left, ","), c.Count))
	}}
}

// apply makes of a list what a change makes of it.
func apply(here map[string]bool, m *pubsub.Message) {
	words := strings.Fields(string(m.Data))
	for _, name := range strings.Split(words[0][1:], ",") {
		here[name] = true
	}
	for _, name := range strings.Split(words[1][1:], ",") {
		delete(here, name)
	}
	delete(here, "")
}

// A name comes once, however often it joins, and goes when it has left as often. Who comes and goes
// within a moment is no news.
func TestPresence(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		for {
			p := newPresence(&hub)
			sub, roster := p.Follow(th, pubsub.Options{})
			if p.Leave("Ann"); len(roster.Names) != 0 || p.Count() != 0 {
				t.Errorf("%v", roster.Names)
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
			}
			if time.Since(began) > 2*pubsub.PresenceSoon {
				sub.Unsubscribe()
				continue // the machine was busy, and Bob may have been seen
			}
			if string(m.Data) != "+Ann,Cat - 2" || p.Count() != 2 || !p.Has("Ann") || p.Has("Bob") {
				t.Errorf("%s; count %d", m.Data, p.Count())
			}
			p.Leave("Ann")
			p.Join("Dan")
			late, roster := p.Follow(th, pubsub.Options{}) // before that is told
			m, err = sub.Receive(limit)
			if err != nil || string(m.Data) != "+Dan -Ann 2" {
				t.Errorf("%s, %v", m.Data, err)
			}
			if !slices.Equal(roster.Names, []string{"Ann", "Cat"}) || late.Next() != m {
				t.Errorf("%v, and then another change", roster.Names)
			}
			if _, roster = p.Follow(th, pubsub.Options{}); !roster.Has("Dan") || roster.Has("Ann") {
				t.Errorf("%v", roster.Names)
			}
			return
		}
	})
}

func TestRosterPages(t *testing.T) {
	t.Parallel()
	r := pubsub.Roster{Names: []string{"a", "c", "e"}}
	for _, row := range []struct {
		after string
		n     int
		want  string
	}{
		{"", 2, "a c true"}, {"c", 2, "e false"}, {"b", 1, "c true"}, {"", 3, "a c e false"},
		{"e", 5, " false"}, {"z", 5, " false"}, {"", 0, " true"}, {"", -1, " true"},
	} {
		names, more := r.Page(row.after, row.n)
		if got := fmt.Sprint(strings.Join(names, " "), " ", more); got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
}

// 2,000 come as fast as they can, from several goroutines, and some go. Those who are there get few
// messages, with each name once; whoever asks for the list has the same as whoever was there all
// the time; and all of that takes little time.
func TestPresenceOfThousands(t *testing.T) {
	t.Parallel()
	const many, sources = 2000, 4
	var hub pubsub.Hub
	p := newPresence(&hub)
	loops.Run(t, func(th *loop.Thread) {
		sub, _ := p.Follow(th, pubsub.Options{Queue: 1 << 12})
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
		here, at, changes := make(map[string]bool), make(map[string]bool), 0
		var late *pubsub.Subscription
		for len(here) < p.Count() || late == nil {
			m, err := sub.Receive(limit)
			if err != nil {
				t.Error(err)
				return
			}
			apply(here, m)
			if changes++; late == nil {
				var roster *pubsub.Roster
				late, roster = p.Follow(th, pubsub.Options{Queue: 1 << 12})
				for _, name := range roster.Names {
					at[name] = true
				}
			}
		}
		for m := late.Next(); m != nil; m = late.Next() {
			apply(at, m)
		}
		took := time.Since(began)
		if len(at) != p.Count() || sub.Dropped() > 0 {
			t.Errorf("a latecomer knows %d of %d; %d lost", len(at), p.Count(), sub.Dropped())
		}
		if most := 2 + int(took/pubsub.PresenceSoon); changes > most {
			t.Errorf("%d changes in %v", changes, took)
		}
		if took > limit/2 && !race.Enabled {
			t.Errorf("it has taken %v", took)
		}
		t.Logf("%d changes in %v", changes, took)
	})
}

// What a Presence was going to tell when it was closed is told to nobody.
func TestPresenceCloses(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		p := newPresence(&hub)
		sub, _ := p.Follow(th, pubsub.Options{})
		p.Join("Ann")
		p.Close()
		if m := sub.Next(); m == nil || string(m.Data) != "+Ann - 1" {
			t.Errorf("the last change is %v", m)
		}
		p.Join("Bob")
		pubsub.PublishNews(p)
		if m := sub.Next(); m != nil {
			t.Errorf("told %s", m.Data)
		}
		next := newPresence(&hub)
		next.Join("Cat")
		pubsub.PublishNews(next)
		if m := sub.Next(); m == nil || string(m.Data) != "+Cat - 1" {
			t.Errorf("the next one tells %v", m)
		}
	})
}
