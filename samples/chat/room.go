package main

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// room is the people of a room, as far as this process knows. It has nothing to do with messages:
// these go through the room's topic to all subscriptions.
//
// The lock of rooms guards it, and is held as long as it takes to change a map, or to make one
// announcement. Notices are published under the lock, so that they come in the order of what has
// happened.
type room struct {
	name    string
	notices *pubsub.Topic // who is here, comes, goes and types, for the sockets of this process
	reports *pubsub.Topic // what processes tell each other

	here      map[string]int          // sockets of each person, on this process
	elsewhere map[string]*roster      // other processes, by their names
	people    map[string]int          // in how many of these sockets and rosters a name is
	changed   *loop.Promise[struct{}] // resolved when the keeper has work; it makes another then

	news   map[string]bool // who has come (true) or gone (false) since the last announcement
	asked  bool            // a socket waits for the list of all people
	latest time.Time       // when the last announcement was made
}

// rooms are those with people on this process.
var rooms = struct {
	sync.Mutex
	open map[string]*room
}{open: make(map[string]*room)}

// local carries what is for the sockets of this process alone, and is not remembered.
var local = pubsub.Hub{Limits: pubsub.Limits{History: -1}}

// noticeQueue is how many notices a socket may be behind. A few are enough: a socket that misses
// some waits for the next list of all people.
const noticeQueue = 64

// The shortest time between two announcements grows with the room, so that lists take the same
// share of the processor, some hundredths, however many people come at the same time.
const (
	gapPerPerson = 50 * time.Microsecond
	longestGap   = time.Second
)

// enter lets a person in; all sockets of a person count as one. It returns the room, and the
// notices of what happens there from now on, among them a list of all people, soon. Unless there is
// an error, the caller calls leave later.
func enter(t *loop.Thread, name, person string) (*room, *pubsub.Subscription, error) {
	rooms.Lock()
	defer rooms.Unlock()
	r := rooms.open[name]
	if r == nil {
		if len(rooms.open) >= maxRooms {
			return nil, nil, errors.New("too many rooms are open")
		}
		r = &room{
			name:      name,
			notices:   local.Topic(name),
			reports:   hub.Topic("chat presence " + name),
			here:      make(map[string]int),
			elsewhere: make(map[string]*roster),
			people:    make(map[string]int),
			changed:   new(loop.Promise[struct{}]),
			news:      make(map[string]bool),
		}
		rooms.open[name] = r
		t.Loop().Go(r.keep)
	}
	notices := r.notices.Subscribe(t, pubsub.Options{Queue: noticeQueue})
	r.here[person]++
	r.add(person)
	r.asked = true
	r.changed.Resolve(struct{}{})
	return r, notices, nil
}

// leave ends one of a person's sockets.
func (r *room) leave(person string) {
	rooms.Lock()
	defer rooms.Unlock()
	if r.here[person]--; r.here[person] == 0 {
		delete(r.here, person)
	}
	r.remove(person)
	r.changed.Resolve(struct{}{})
}

// typing tells everybody that a person is typing.
func (r *room) typing(person string) {
	rooms.Lock()
	defer rooms.Unlock()
	r.tell(notice{Type: "typing", Name: person})
	if len(r.elsewhere) > 0 {
		r.report(report{Typing: person})
	}
}

// ask makes the keeper tell the room who is here, for a socket that has missed notices.
func (r *room) ask() {
	rooms.Lock()
	defer rooms.Unlock()
	r.asked = true
	r.changed.Resolve(struct{}{})
}

// add counts a name. The caller holds the lock, as for the functions below.
func (r *room) add(name string) {
	if r.people[name]++; r.people[name] == 1 {
		r.turn(name, true)
	}
}

func (r *room) remove(name string) {
	if r.people[name]--; r.people[name] == 0 {
		delete(r.people, name)
		r.turn(name, false)
	}
}

// turn notes that a person has come or gone. A person who has done both since the last announcement
// is no news.
func (r *room) turn(name string, here bool) {
	if _, ok := r.news[name]; ok {
		delete(r.news, name)
	} else {
		r.news[name] = here
	}
}

// announce tells the room who has come and who has gone, and who is here if a socket has asked for
// that. A list is encoded once for all sockets that wait for one; the others skip it. If it is too
// early, announce returns how long to wait, else a negative duration.
func (r *room) announce(now time.Time) (wait time.Duration) {
	if len(r.news) == 0 && !r.asked {
		return -1
	}
	gap := min(time.Duration(len(r.people))*gapPerPerson, longestGap)
	if wait = r.latest.Add(gap).Sub(now); wait > 0 {
		return wait
	}
	r.latest = now
	var came, went []string
	for name, here := range r.news {
		if here {
			came = append(came, name)
		} else {
			went = append(went, name)
		}
	}
	clear(r.news)
	if len(came) > 0 {
		r.tell(notice{Type: "join", Names: came})
	}
	if len(went) > 0 {
		r.tell(notice{Type: "leave", Names: went})
	}
	if r.asked {
		r.asked = false
		r.tell(notice{Type: "presence", Names: slices.Sorted(maps.Keys(r.people))})
	}
	return -1
}

func (r *room) tell(n notice) {
	n.Room = r.name
	r.notices.Publish(n.encode())
}

// isList reports whether a notice is a list of all people.
func isList(m *pubsub.Message) bool {
	return bytes.HasPrefix(m.Data, []byte(`{"type":"presence"`))
}
