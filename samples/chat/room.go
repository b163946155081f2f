package main

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// room is who is where, as far as this process knows. What is said in a room is not its business: that goes from one
// member's subscription to all others'.
//
// It is guarded by the lock of rooms, which is held for as long as it takes to change a map: notices are published under
// it, so that their order is the order of what has happened.
type room struct {
	name    string
	notices *pubsub.Topic // who comes, goes and is typing, for the sockets of this process
	reports *pubsub.Topic // what processes tell each other

	here      map[string]int          // sockets of each person, on this process
	elsewhere map[string]*roster      // other processes, by their names
	people    map[string]int          // in how many of these sockets and rosters a name is
	changed   *loop.Promise[struct{}] // kept when here has changed; the keeper makes another
}

// rooms are those that somebody is in, on this process.
var rooms = struct {
	sync.Mutex
	open map[string]*room
}{open: make(map[string]*room)}

// local carries what is for the sockets of this process alone, and is not remembered.
var local = pubsub.Hub{Limits: pubsub.Limits{History: -1}}

// noticeQueue is how many notices a socket may be behind. They are not many: whoever misses some gets the whole list.
const noticeQueue = 64

// enter lets a person in, who may have several sockets, which count as one. It returns the room, and what happens there
// from now on. It is to be followed by leave, unless there is an error.
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

// leave has one of a person's sockets leave.
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
	return notice{Type: "presence", Room: r.name, Name: you, Names: slices.Sorted(maps.Keys(r.people))}.encode()
}

// add counts a name, and tells of it if it is new. The caller holds the lock, as for all that follows.
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
