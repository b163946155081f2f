package main

import (
	"errors"
	"sync"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// room is the people of a room, as far as this process knows. It has nothing to do with messages:
// these go through the room's topic to all subscriptions.
//
// The lock of rooms guards it, and is held as long as it takes to change a map, or to make one
// frame.
type room struct {
	name    string
	notices *pubsub.Topic // who is here, comes, goes and types, for the sockets of this process
	reports *pubsub.Topic // what processes tell each other

	here      map[string]int          // sockets of each person, on this process
	elsewhere map[string]*roster      // other processes, by their names
	presence  *pubsub.Presence        // of the people in these sockets and rosters
	changed   *loop.Promise[struct{}] // resolved when the keeper has work; it makes another then

	listed *pubsub.Roster             // the last one that was sent,
	frame  *websocket.PreparedMessage // in this
}

// rooms are those with people on this process.
var rooms = struct {
	sync.Mutex
	open map[string]*room
}{open: make(map[string]*room)}

// local carries what is for the sockets of this process alone, and is not remembered.
var local = pubsub.Hub{Limits: pubsub.Limits{History: -1}}

// noticeQueue is how many notices a socket may be behind. A few are enough: a socket that misses
// some gets a list of all people.
const noticeQueue = 64

// enter lets a person in; all sockets of a person count as one. What follow subscribes to soon
// tells that the person has come. Unless there is an error, the caller calls leave later.
func enter(t *loop.Thread, name, person string) (*room, error) {
	rooms.Lock()
	defer rooms.Unlock()
	r := rooms.open[name]
	if r == nil {
		if len(rooms.open) >= maxRooms {
			return nil, errors.New("too many rooms are open")
		}
		r = &room{
			name:      name,
			notices:   local.Topic(name),
			reports:   hub.Topic("chat presence " + name),
			here:      make(map[string]int),
			elsewhere: make(map[string]*roster),
			changed:   new(loop.Promise[struct{}]),
		}
		r.presence = &pubsub.Presence{Topic: r.notices, Publish: r.tellChange}
		rooms.open[name] = r
		t.Loop().Go(r.keep)
	}
	r.here[person]++
	r.presence.Join(person)
	r.changed.Resolve(struct{}{})
	return r, nil
}

// follower subscribes to the notices of a room, from a list of the people on.
type follower struct {
	room   *room
	roster *pubsub.Roster // the list
}

// Subscribe implements websocket.Topic.
func (f *follower) Subscribe(t *loop.Thread, o pubsub.Options) (notices *pubsub.Subscription) {
	notices, f.roster = f.room.presence.Follow(t, o)
	return notices
}

// leave ends one of a person's sockets.
func (r *room) leave(person string) {
	rooms.Lock()
	defer rooms.Unlock()
	if r.here[person]--; r.here[person] == 0 {
		delete(r.here, person)
	}
	r.presence.Leave(person)
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

// list returns a frame with all who are here. It is made once for all sockets that wait for the
// same list.
func (r *room) list(roster *pubsub.Roster) *websocket.PreparedMessage {
	rooms.Lock()
	defer rooms.Unlock()
	if r.listed != roster {
		r.listed = roster
		text := notice{Type: "presence", Room: r.name, Names: roster.Names}.encode()
		r.frame, _ = websocket.Prepare(websocket.Text, text) // fails for no text
	}
	return r.frame
}

// tellChange tells the room who has come and who has gone.
func (r *room) tellChange(c pubsub.Change) {
	if len(c.Joined) > 0 {
		r.tell(notice{Type: "join", Names: c.Joined})
	}
	if len(c.Left) > 0 {
		r.tell(notice{Type: "leave", Names: c.Left})
	}
}

func (r *room) tell(n notice) {
	n.Room = r.name
	r.notices.Publish(n.encode())
}
