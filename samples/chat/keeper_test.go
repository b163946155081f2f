package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// onLoop runs f on a thread of a loop of its own, until f and the keepers that it has started have
// ended.
func onLoop(t *testing.T, f func(th *loop.Thread)) {
	t.Helper()
	loops.Run(t, f)
	if len(rooms.open) > 0 {
		t.Errorf("open are still: %v", rooms.open)
	}
}

// expect receives the next notice, which has to be this one.
func expect(t *testing.T, s *pubsub.Subscription, kind, name string) {
	t.Helper()
	m, err := s.Receive(patience)
	var n notice
	if err == nil {
		err = json.Unmarshal(m.Data, &n)
	}
	if err != nil || n.Type != kind || n.Name != name && !slices.Equal(n.Names, []string{name}) {
		t.Errorf("got %+v, %v, want %s of %s", n, err, kind, name)
	}
}

// TestElsewhere plays another process, which shares a room with this one.
func TestElsewhere(t *testing.T) {
	defer func(every, silent time.Duration) { reportEvery, silence = every, silent }(reportEvery,
		silence)
	// However busy the machine is, the others still know of a process.
	reportEvery, silence = 50*time.Millisecond, patience
	onLoop(t, func(th *loop.Thread) {
		topic := hub.Topic("chat presence shared")
		ours := topic.Subscribe(th, pubsub.Options{})
		other := func(rep report) {
			rep.Process = "other"
			text, _ := json.Marshal(rep)
			topic.Publish(text)
		}
		// reported waits until this process reports these people.
		reported := func(want ...string) {
			t.Helper()
			for {
				m, err := ours.Receive(patience)
				if err != nil {
					t.Errorf("this process does not report %q: %v", want, err)
					return
				}
				var rep report
				if json.Unmarshal(m.Data, &rep) == nil && rep.Process == process &&
					rep.Typing == "" {
					if slices.Sort(rep.People); slices.Equal(rep.People, want) {
						return
					}
				}
			}
		}

		// asked waits until this process asks.
		asked := func() {
			t.Helper()
			var rep report
			if m, err := ours.Receive(patience); err != nil ||
				json.Unmarshal(m.Data, &rep) != nil || !rep.Ask || rep.Process != process {
				t.Errorf("got %+v, %v, want a question", rep, err)
			}
		}

		_, notices, err := arrive(th, "shared", "Ann")
		if err != nil {
			t.Error(err)
			return
		}
		expect(t, notices, "join", "Ann")
		asked() // is anybody there?
		topic.Publish([]byte("what nobody understands"))
		other(report{People: []string{"Bob"}})
		expect(t, notices, "join", "Bob")
		reported("Ann") // since the other process knows nothing of us yet
		other(report{Ask: true})
		reported("Ann") // since it knows nothing after a new start either

		room, _ := enter(th, "shared", "Cat")
		expect(t, notices, "join", "Cat")
		reported("Ann", "Cat")

		other(report{People: []string{"Bob", "Cat"}})
		other(report{Typing: "Bob"})
		expect(t, notices, "typing", "Bob") // that Cat is at the other process, too, is no news
		other(report{Typing: "Dan"})        // whom no process has reported
		room.leave("Cat")
		reported("Ann")
		other(report{People: []string{"Cat"}})
		expect(t, notices, "leave", "Bob") // Cat has never left
		room.typing("Ann")
		expect(t, notices, "typing", "Ann")
		other(report{})
		expect(t, notices, "leave", "Cat") // in order
		other(report{People: []string{"Bob"}})
		expect(t, notices, "join", "Bob")
		silence = time.Second
		expect(t, notices, "leave", "Bob") // it is silent

		// A process that is alone reports nothing more, until it ends.
		for {
			if _, err := ours.Receive(4 * reportEvery); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				break
			}
		}
		silence = patience
		room.leave("Ann")
		expect(t, notices, "leave", "Ann")
		reported()
	})
}

// Two processes that find each other: each has to learn of the other's people, whoever was first. A
// process that has a room alone has asked once, and reports nothing more, however many people come
// and go.
func TestAlone(t *testing.T) {
	onLoop(t, func(th *loop.Thread) {
		ours := hub.Topic("chat presence answered").Subscribe(th, pubsub.Options{})
		room, notices, err := arrive(th, "answered", "Ann")
		if err != nil {
			t.Error(err)
			return
		}
		expect(t, notices, "join", "Ann")
		next := func() (rep report) {
			for rep.Process != process {
				m, err := ours.Receive(patience)
				if err != nil {
					t.Error(err)
					return
				}
				_ = json.Unmarshal(m.Data, &rep)
			}
			return rep
		}
		if rep := next(); !rep.Ask || len(rep.People) > 0 {
			t.Errorf("first: %+v", rep)
		}
		for range 3 {
			_, others, _ := arrive(th, "answered", "Cat")
			expect(t, others, "join", "Cat")
			room.leave("Cat")
			expect(t, others, "leave", "Cat")
			others.Unsubscribe()
		}
		text, _ := json.Marshal(report{Process: "new", People: []string{"Bob"}})
		room.reports.Publish(text)
		for n := (notice{}); n.Type != "join" || !slices.Equal(n.Names, []string{"Bob"}); {
			m, err := notices.Receive(patience)
			if err != nil {
				t.Error(err)
				return
			}
			n = notice{}
			_ = json.Unmarshal(m.Data, &n)
		}
		if rep := next(); !slices.Equal(rep.People, []string{"Ann"}) {
			t.Errorf("Bob's process is answered with %+v", rep)
		}
		text, _ = json.Marshal(report{Process: "new"})
		room.reports.Publish(text)
		expect(t, notices, "leave", "Bob")
		room.leave("Ann")
		if rep := next(); rep.Ask || len(rep.People) > 0 {
			t.Errorf("at the end: %+v", rep)
		}
	})
}
