package main

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// room is the people of a room, as far as this process knows. It has nothing to do with messages:
// these go through the room's topic to all subscriptions.
//
// The lock of rooms guards it, and is held as long as it takes to change a map. Notices are
// published under the lock, so that they come in the order of what has happened.
type room struct {
	name    string
	notices *pubsub.Topic // that people come, go and type, for the sockets of this process
	reports *pubsub.Topic // what processes tell each other

	here      map[string]int          // sockets of each person, on this process
	elsewhere map[string]*roster      // other processes, by their names
	people    map[string]int          // in how many of these sockets and rosters a name is
	changed   *loop.Promise[struct{}] // resolved when here has changed; the keeper makes another
}

// rooms are those with people on this process.
var rooms = struct {
	sync.Mutex
	open map[string]*room
}{open: make(map[string]*room)}

// local carries what is for the sockets of this process alone, and is not remembered.
var local = pubsub.Hub{Limits: pubsub.Limits{History: -1}}

// noticeQueue is how many notices a socket may be behind. A few are enough: a socket that misses
// some gets the whole list.
const noticeQueue = 64

// enter lets a person in; all sockets of a person count as one. It returns the room, and the
// notices of what happens there from now on. Unless there is an error, the caller calls leave
// later.
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
		}
		rooms.open[name] = r
		t.Loop().Go(r.keep)
	}
	notices := r.notices.Subscribe(t, pubsub.Options{Queue: noticeQueue})
	r.here[person]++
	r.add(person)
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
	r.tell("typing", person)
	if len(r.elsewhere) > 0 {
		r.report(report{Typing: person})
	}
}

// presence tells one socket who is there.
func (r *room) presence(you string) []byte {
	rooms.Lock()
	defer rooms.Unlock()
	names := slices.Sorted(maps.Keys(r.people))
	return notice{Type: "presence", Room: r.name, Name: you, Names: names}.encode()
}

// add counts a name, and tells the room if it is new. The caller holds the lock, as for the
// functions below.
func (r *room) add(name string) {
	if r.people[name]++; r.people[name] == 1 {
		r.tell("join", name)
	}
}

func (r *room) remove(name string) {
	if r.people[name]--; r.people[name] == 0 {
		delete(r.people, name)
		r.tell("leave", name)
	}
}

func (r *room) tell(kind, name string) {
	r.notices.Publish(notice{Type: kind, Room: r.name, Name: name}.encode())
}
