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

// Where several processes share their rooms, each knows its own sockets only, and reports to the others who is there. A
// report is the whole list: one that is lost or comes twice does no harm, once the next has come. A process that says
// nothing for a while has died, or its connection has: whoever was there has left, as far as others can tell.
//
// A process that opens a room asks whether others have it open, and begins to report when one
// answers. So a room that only one process has open costs one question, whoever comes and goes
// there.

// They are variables for the tests alone.
var (
	reportEvery = 5 * time.Second
	silence     = 15 * time.Second // after which a process is taken for dead
)

const (
	// reportGap is the least between two reports: many people may come at once.
	reportGap = 100 * time.Millisecond

	// reportAge is how long a broker is to keep reports: rooms that nobody is in any more are not
	// to fill it.
	reportAge = 2 * time.Minute
)

// report is what a process tells the others about a room.
type report struct {
	Process string   `json:"process"`
	People  []string `json:"people"`           // all that are there
	Typing  string   `json:"typing,omitempty"` // who is; it says nothing of people then
	Ask     bool     `json:"ask,omitempty"`    // who else is there? Nor does this.
}

// process is the name of this one.
var process = rand.Text()

// roster is what another process has reported last.
type roster struct {
	people []string
	heard  time.Time
}

func (r *room) report(rep report) {
	rep.Process = process
	text, _ := json.Marshal(rep) // cannot fail
	r.reports.PublishFor(reportAge, text)
}

// keep is a room's own thread, which ends when the last person on this process has left, or the process stops.
func (r *room) keep(t *loop.Thread) {
	reports := r.reports.Subscribe(t, pubsub.Options{Queue: 1 << 10})
	status := hub.Status().Subscribe(t, pubsub.Options{Queue: 1})
	stopped := t.Loop().Stopped()
	carried := hub.Carried()
	var last, due time.Time // due is zero while there is nobody to report to
	for ask := true; ; {
		rooms.Lock()
		now := t.Loop().Time()
		for m := reports.Next(); m != nil; m = reports.Next() {
			if r.heard(m.Data, now) {
				due = now // somebody new wants to know who is here
			}
		}
		r.forget(now)
		status.Next()
		if hub.Carried() != carried {
			carried = !carried
			r.notices.Publish(outage(r.name, carried).encode())
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
			if now.Sub(last) < silence { // else nobody has heard of us
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
			wait = due.Sub(now)
			if len(r.elsewhere) == 0 {
				due, wait = time.Time{}, -1 // there is nobody to miss a report
			}
		}
		changed := r.changed
		rooms.Unlock()
		_, _ = t.AwaitAny(wait, stopped, reports, status, changed)
	}
}

// outage is what a room is told when the other processes cannot be reached, and when they can be again.
func outage(room string, over bool) notice {
	n := notice{Type: "notice", Room: room, Text: "The other servers cannot be reached. People there will read later what is said here."}
	if over {
		n.Text = "The other servers can be reached again."
	}
	return n
}

// heard takes a report in, and reports whether it is to be answered: a question, or a process's
// first.
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
		if r.people[rep.Typing] > 0 {
			r.tell("typing", rep.Typing)
		}
		return false
	case len(rep.People) == 0:
		r.lose(rep.Process)
		return false
	case before == nil:
		before, answer = new(roster), true
	}
	for _, name := range rep.People { // first: who is in both lists does not leave
		r.add(name)
	}
	for _, name := range before.people {
		r.remove(name)
	}
	r.elsewhere[rep.Process] = &roster{rep.People, now}
	return answer
}

// forget loses the processes that have been silent for too long.
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
			r.remove(name)
		}
	}
}
