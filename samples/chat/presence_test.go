package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// arrive lets a person into a room, and returns the notices from right before that on.
func arrive(th *loop.Thread, name, person string) (*room, *pubsub.Subscription, error) {
	notices := local.Topic(name).Subscribe(th, pubsub.Options{Queue: noticeQueue})
	r, err := enter(th, name, person)
	return r, notices, err
}

// Who comes is told to all in few notices, and who is there to newcomers in few lists, however many
// come at once: 2,000 newcomers do not cost 2,000 lists.
func TestManyJoin(t *testing.T) {
	const many, together = 2000, 50
	onLoop(t, func(th *loop.Thread) {
		watch := local.Topic("crowd").Subscribe(th, pubsub.Options{Queue: 2 * many})
		here, notices := make(map[string]bool), 0
		hear := func(m *pubsub.Message) {
			var n notice
			if err := json.Unmarshal(m.Data, &n); err != nil || n.Type != "join" {
				t.Errorf("%s: %v", m.Data, err)
			}
			for _, name := range n.Names {
				here[name] = true
			}
			notices++
		}
		began := time.Now()
		var r *room
		var last *pubsub.Subscription
		lists := make(map[any]bool)
		for i := range many {
			var err error
			if r, last, err = arrive(th, "crowd", fmt.Sprintf("Person %04d", i)); err != nil {
				t.Error(err)
				return
			}
			again, roster := r.presence.Follow(th, pubsub.Options{})
			again.Unsubscribe()
			lists[r.list(roster)] = true
			if i%together == 0 {
				_ = th.Sleep(time.Millisecond)
			}
			for m := watch.Next(); m != nil; m = watch.Next() {
				if hear(m); r.presence.Count() < len(here) {
					t.Errorf("%d have come, %d are there", len(here), r.presence.Count())
				}
			}
		}
		for len(here) < many {
			m, err := watch.Receive(patience)
			if err != nil {
				t.Error(err)
				break
			}
			hear(m)
		}
		took := time.Since(began)
		if most := 2 + int(took/(5*time.Millisecond)); notices > most || len(lists) > most+1 {
			t.Errorf("%d lists, %d notices in %v, at most %d are allowed", len(lists), notices, took,
				most)
		}
		t.Logf("%d lists, %d notices in %v", len(lists), notices, took)

		// The newcomer who came last is told of, and all are in the list then.
		if m, err := last.Receive(patience); err != nil || last.Dropped() > 0 {
			t.Errorf("%v, %v, %d dropped", m, err, last.Dropped())
		}
		if _, roster := r.presence.Follow(th, pubsub.Options{}); len(roster.Names) != many {
			t.Errorf("a list of %d", len(roster.Names))
		}
		for i := range many {
			r.leave(fmt.Sprintf("Person %04d", i))
		}
		if m, err := watch.Receive(patience); err != nil {
			t.Error(err)
		} else {
			var n notice
			if _ = json.Unmarshal(m.Data, &n); n.Type != "leave" || len(n.Names) != many {
				t.Errorf("%s of %d", n.Type, len(n.Names))
			}
		}
	})
}

// A person who comes and goes between two announcements, as with a reload of the page, is no news.
func TestComesAndGoes(t *testing.T) {
	onLoop(t, func(th *loop.Thread) {
		for again := true; again; {
			r, notices, err := arrive(th, "revolving", "Ann")
			if err != nil {
				t.Error(err)
				return
			}
			expect(t, notices, "join", "Ann")
			began := time.Now()
			_, _ = enter(th, "revolving", "Bob")
			r.leave("Bob")
			r.leave("Ann")
			_, _ = enter(th, "revolving", "Ann")
			_, _ = enter(th, "revolving", "Cat")
			again = time.Since(began) > 4*time.Millisecond // the machine was busy: Bob was seen
			if !again {
				expect(t, notices, "join", "Cat")
			}
			r.leave("Ann")
			r.leave("Cat")
			for rooms.open["revolving"] == r { // its keeper belongs to this loop
				th.Yield()
			}
		}
	})
}
