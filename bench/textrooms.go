package main

import (
	"slices"
	"sync"
)

// textRooms are the rooms of a server whose library makes no frame for many. Safe from any
// goroutine.
type textRooms struct {
	rooms sync.Map // of *textRoom, by name
}

// A listener is a member. hear does not wait, and does not keep text if it returns false: then the
// member is too slow, and leaves.
type listener interface{ hear(text []byte) bool }

// A textRoom keeps its members in a slice, as chatRoom does.
type textRoom struct {
	mu      sync.Mutex
	members []listener
}

func (r *textRooms) room(name string) *textRoom {
	room, _ := r.rooms.LoadOrStore(name, &textRoom{})
	return room.(*textRoom)
}

func (room *textRoom) join(m listener) {
	room.mu.Lock()
	defer room.mu.Unlock()
	room.members = append(room.members, m)
}

func (room *textRoom) leave(m listener) {
	room.mu.Lock()
	defer room.mu.Unlock()
	if i := slices.Index(room.members, m); i >= 0 {
		room.members = slices.Delete(room.members, i, i+1)
	}
}

// publish never waits, and returns those who are too slow. The lock gives all members one order.
func (room *textRoom) publish(text []byte) (slow []listener) {
	room.mu.Lock()
	defer room.mu.Unlock()
	for _, m := range room.members {
		if !m.hear(text) {
			slow = append(slow, m)
		}
	}
	return slow
}
