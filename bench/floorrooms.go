package main

import (
	"bytes"
	"io"
	"slices"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"
)

// floorRooms are the rooms of a thread of the floor: for each message a receive, and for each
// delivery a send of what was received, with another head. They know the frames of the client that
// measures: text in one frame, masked, of at most 125 bytes.
type floorRooms struct {
	byTarget map[string]*floorRoom // of the request that has entered
	of       []*floorRoom          // by the member's descriptor
}

type floorRoom struct{ members []int }

// enter answers a request that enters a room.
func (rs *floorRooms) enter(fd int, request []byte) {
	var target string
	var answer bytes.Buffer
	u := ws.Upgrader{OnRequest: func(t []byte) error { target = string(t); return nil }}
	_, err := u.Upgrade(struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(request), &answer})
	check(err)
	r := rs.byTarget[target]
	if r == nil {
		r = &floorRoom{}
		rs.byTarget[target] = r
	}
	r.members = append(r.members, fd)
	for fd >= len(rs.of) {
		rs.of = append(rs.of, nil)
	}
	rs.of[fd] = r
	transfer(unix.SYS_SENDTO, fd, answer.Bytes())
}

// room returns the room of a connection; nil: it is in none.
func (rs *floorRooms) room(fd int) *floorRoom {
	if fd >= len(rs.of) {
		return nil
	}
	return rs.of[fd]
}

func (rs *floorRooms) leave(fd int) {
	if r := rs.room(fd); r != nil {
		r.members = slices.DeleteFunc(r.members, func(m int) bool { return m == fd })
		rs.of[fd] = nil
	}
}

// say sends messages to all members, and reports whether p has whole ones and nothing else.
func (r *floorRoom) say(p []byte) bool {
	for len(p) > 0 {
		const text, masked, head = 0x81, 0x80, 6
		if len(p) < head || p[0] != text || p[1] < masked || p[1] > masked+125 ||
			len(p) < head+int(p[1]-masked) {
			return false
		}
		end := head + int(p[1]-masked)
		ws.Cipher(p[head:end], [4]byte(p[2:]), 0)
		frame := p[head-2 : end]
		frame[0], frame[1] = text, p[1]-masked
		for _, fd := range r.members {
			transfer(unix.SYS_SENDTO, fd, frame)
		}
		p = p[end:]
	}
	return true
}
