package main

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Where several processes share their rooms, each knows only its own sockets, and reports to the
// others who is there. A report is the whole list, so one that is lost or arrives twice does no
// harm once the next has arrived. If a process says nothing for a while, it has died, or its
// connection has: the others take its people for gone.
//
// A process that opens a room asks whether others have it open, and begins to report when one
// answers. So a room that only one process has open costs one question, however many people come
// and go.

// They are variables for the tests alone.
var (
	reportEvery = 5 * time.Second
	silence     = 15 * time.Second // after which a process counts as dead
)

const (
	// reportGap is the shortest time between two reports: many people may come at once.
	reportGap = 100 * time.Millisecond

	// reportAge is how long a broker keeps reports, so that rooms which are empty by now do not
	// fill it.
	reportAge = 2 * time.Minute
)

// report is what a process tells the others about a room.
type report struct {
	Process string   `json:"process"`
	People  []string `json:"people"`           // all who are there
	Typing  string   `json:"typing,omitempty"` // who is typing; People means nothing then
	Ask     bool     `json:"ask,omitempty"`    // asks who else is there; People means nothing then
}

// process is the name of this process.
var process = rand.Text()

// roster is the last report of another process.
type roster struct {
	people []string
	heard  time.Time
}

func (r *room) report(rep report) {
	rep.Process = process
	text, _ := json.Marshal(rep) // cannot fail
	r.reports.PublishFor(reportAge, text)
}

// keep is the room's own thread. It ends when the last person on this process has left, or when the
// process stops.
func (r *room) keep(t *loop.Thread) {
	reports := r.reports.Subscribe(t, pubsub.Options{Queue: 1 << 10})
	status := hub.Status().Subscribe(t, pubsub.Options{Queue: 1})
	stopped := t.Loop().Stopped()
	carried := hub.Carried()
	var last, due time.Time // due is zero while no other process has the room open
	for ask := true; ; {
		rooms.Lock()
		now := t.Loop().Time()
		for m := reports.Next(); m != nil; m = reports.Next() {
			if r.heard(m.Data, now) {
				due = now // a process wants to know who is here
			}
		}
		r.forget(now)
		status.Next()
		if hub.Carried() != carried {
			carried = !carried
			r.tell(outage(r.name, carried))
			ask = ask || carried
		}
		if _, err := r.changed.Value(); err == nil {
			r.changed = new(loop.Promise[struct{}])
			if soon := last.Add(reportGap); soon.Before(due) {
				due = soon
			}
		}
		if len(r.here) == 0 || stopped.Ready() {
			delete(rooms.open, r.name)
			r.presence.Close()           // the room may be opened again
			if now.Sub(last) < silence { // else the others count us as dead already
				r.report(report{})
			}
			rooms.Unlock()
			return
		}
		if ask {
			ask = false
			r.report(report{Ask: true})
		}
		wait := time.Duration(-1)
		if !due.IsZero() {
			if !now.Before(due) {
				r.report(report{People: slices.Collect(maps.Keys(r.here))})
				last, due = now, now.Add(reportEvery)
			}
			if len(r.elsewhere) == 0 {
				due = time.Time{} // no other process misses a report
			} else if d := due.Sub(now); wait < 0 || d < wait {
				wait = d
			}
		}
		changed := r.changed
		rooms.Unlock()
		_, _ = t.AwaitAny(wait, stopped, reports, status, changed)
	}
}

// outage tells a room that the other processes cannot be reached, or that they can be again.
func outage(room string, over bool) notice {
	text := "The other servers cannot be reached. People there will read later what is said here."
	if over {
		text = "The other servers can be reached again."
	}
	return notice{Type: "notice", Room: room, Text: text}
}

// heard takes a report in, and reports whether it needs an answer: it asks, or is the first of its
// process.
func (r *room) heard(text []byte, now time.Time) (answer bool) {
	var rep report
	if json.Unmarshal(text, &rep) != nil || rep.Process == process {
		return false
	}
	before := r.elsewhere[rep.Process]
	switch {
	case rep.Ask:
		return true
	case rep.Typing != "":
		if r.presence.Has(rep.Typing) {
			r.tell(notice{Type: "typing", Name: rep.Typing})
		}
		return false
	case len(rep.People) == 0:
		r.lose(rep.Process)
		return false
	case before == nil:
		before, answer = new(roster), true
	}
	for _, name := range rep.People { // first, so that people in both lists do not leave
		r.presence.Join(name)
	}
	for _, name := range before.people {
		r.presence.Leave(name)
	}
	r.elsewhere[rep.Process] = &roster{rep.People, now}
	return answer
}

// forget drops the processes that have been silent for too long.
func (r *room) forget(now time.Time) {
	for name, other := range r.elsewhere {
		if now.Sub(other.heard) >= silence {
			r.lose(name)
		}
	}
}

func (r *room) lose(process string) {
	if other := r.elsewhere[process]; other != nil {
		delete(r.elsewhere, process)
		for _, name := range other.people {
			r.presence.Leave(name)
		}
	}
}
