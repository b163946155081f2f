package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Who comes is told to all in few notices, and who is there to newcomers in few lists, however many
// come at once and however slowly the keeper gets to run: 2,000 newcomers do not cost 2,000 lists.
func TestManyJoin(t *testing.T) {
	const many, together = 2000, 50
	onLoop(t, func(th *loop.Thread) {
		watch := local.Topic("crowd").Subscribe(th, pubsub.Options{Queue: 2 * many})
		began := time.Now()
		var r *room
		var last *pubsub.Subscription
		for i := range many {
			var err error
			if r, last, err = enter(th, "crowd", fmt.Sprintf("Person %04d", i)); err != nil {
				t.Error(err)
				return
			}
			if i%together == 0 {
				th.Yield() // the keeper runs
			}
		}
		here, notices, lists, listed := make(map[string]bool), 0, 0, 0
		for len(here) < many || lists == 0 || listed < many {
			m, err := watch.Receive(patience)
			if err != nil {
				t.Error(err)
				break
			}
			var n notice
			if err := json.Unmarshal(m.Data, &n); err != nil {
				t.Error(err)
			}
			switch notices++; n.Type {
			case "join":
				for _, name := range n.Names {
					here[name] = true
				}
			case "presence":
				lists++
				if listed = len(n.Names); listed != len(here) {
					t.Errorf("a list of %d people while %d have come", listed, len(here))
				}
			}
		}
		// Between two lists 50 people come, and the sum of the gaps cannot exceed the time that has
		// passed.
		took := time.Since(began)
		most := 2
		for sum, n := time.Duration(0), 1; n < many && sum < took; n += together {
			sum += time.Duration(n) * gapPerPerson
			most++
		}
		if lists > most || notices > 2*most {
			t.Errorf("%d lists, %d notices in %v, at most %d are allowed", lists, notices, took, most)
		}
		t.Logf("%d lists, %d notices in %v", lists, notices, took)

		// The newcomer who came last gets the same list, and has missed nothing.
		if m, err := last.Receive(patience); err != nil || last.Dropped() > 0 {
			t.Errorf("%v, %v, %d dropped", m, err, last.Dropped())
		}
		for i := range many {
			r.leave(fmt.Sprintf("Person %04d", i))
		}
		if m, err := watch.Receive(patience); err != nil || isList(m) {
			t.Errorf("%v, %v", m, err)
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
		r, notices, err := enter(th, "revolving", "Ann")
		if err != nil {
			t.Error(err)
			return
		}
		expect(t, notices, "join", "Ann")
		_, _, _ = enter(th, "revolving", "Bob")
		r.leave("Bob")
		r.leave("Ann")
		_, _, _ = enter(th, "revolving", "Ann")
		_, _, _ = enter(th, "revolving", "Cat")
		expect(t, notices, "join", "Cat")
		r.leave("Ann")
		r.leave("Cat")
	})
}
