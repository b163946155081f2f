package main

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

// noticeQueue is how many notices a socket may be behind. A few are enough: a socket that misses
// some gets a list of all people.
const noticeQueue = 64

// rooms has the rooms with people on this process, and how many sockets are in each.
var rooms = struct {
	sync.Mutex
	open map[string]int
}{open: make(map[string]int)}

// enter lets a person into a room; all sockets of a person count as one. Unless there is an error,
// the caller calls exit later.
func enter(room, person string) error {
	rooms.Lock()
	defer rooms.Unlock()
	if rooms.open[room] == 0 && len(rooms.open) >= maxRooms {
		return errors.New("too many rooms are open")
	}
	rooms.open[room]++
	people(room).Join(person)
	return nil
}

// exit ends one of a person's sockets.
func exit(room, person string) {
	rooms.Lock()
	defer rooms.Unlock()
	if rooms.open[room]--; rooms.open[room] == 0 {
		delete(rooms.open, room)
	}
	people(room).Leave(person)
}

// people are those in a room, on all processes.
func people(room string) *pubsub.Presence { return said(room).Presence() }

// typing tells everybody that a person is typing.
func typing(room, person string) {
	people(room).Publish(notice{Type: "typing", Room: room, Name: person}.encode())
}

// news is that people come or go, that one is typing, or a list of all.
type news struct {
	pubsub.Change
	frames []*websocket.PreparedMessage
}

// has reports whether a person is in the list.
func (n *news) has(person string) bool {
	_, found := slices.BinarySearch(n.Joined, person)
	return n.List && found
}

// newsOf returns the news of a message of people. It is made once for all sockets that get the
// message.
var newsOf = pubsub.Shared(func(data []byte) *news {
	var n struct {
		Type string
		pubsub.Change
	}
	if json.Unmarshal(data, &n) != nil {
		return new(news)
	}
	all := &news{Change: n.Change}
	add := func(text []byte) {
		frame, _ := websocket.Prepare(websocket.Text, text) // only another kind is an error
		all.frames = append(all.frames, frame)
	}
	where := roomOf(n.Topic)
	switch {
	case n.Type == "typing":
		add(data)
	case n.List:
		add(notice{Type: "presence", Room: where, Names: n.Joined}.encode())
		return all
	}
	if len(n.Joined) > 0 {
		add(notice{Type: "join", Room: where, Names: n.Joined}.encode())
	}
	if len(n.Left) > 0 {
		add(notice{Type: "leave", Room: where, Names: n.Left}.encode())
	}
	all.Joined, all.Left = nil, nil // they are in the frames
	return all
})

// outage tells a room that the other processes cannot be reached, or that they can be again.
func outage(room string, over bool) notice {
	text := "The other servers cannot be reached. People there will read later what is said here."
	if over {
		text = "The other servers can be reached again."
	}
	return notice{Type: "notice", Room: room, Text: text}
}
