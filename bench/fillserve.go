package main

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// fillRooms are rooms that tell their members who is there, of a server whose library has nothing
// for it: written as one writes it well, with a list that is made once for all who get the same,
// and news of many in one message. Safe from any goroutine.
type fillRooms struct{ rooms sync.Map } // of *fillRoom, by name

type fillRoom struct {
	mu      sync.Mutex
	names   []string // as of the last change
	list    []byte   // of these; nil: it is to be made
	news    []string // who has come since
	members []fillMember
	latest  time.Time // of the last change
}

// A fillMember is told a text, which is the same for many. It does not wait.
type fillMember interface{ told(text *fillText) }

// fillText is a text, and its frame for gorilla once somebody needs that.
type fillText struct {
	text  []byte
	once  sync.Once
	frame *websocket.PreparedMessage
}

func (r *fillRooms) room(name string) *fillRoom {
	room, _ := r.rooms.LoadOrStore(name, &fillRoom{})
	return room.(*fillRoom)
}

// enter tells a member who is there, and the others soon that it has come.
func (r *fillRoom) enter(name string, m fillMember) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		r.list = tasks.FillText(tasks.FillList, r.names)
	}
	m.told(&fillText{text: r.list})
	r.members = append(r.members, m)
	if r.news = append(r.news, name); len(r.news) == 1 {
		due := r.latest.Add(tasks.FillGap(len(r.members)))
		time.AfterFunc(max(tasks.FillSoon, time.Until(due)), r.tell)
	}
}

func (r *fillRoom) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := &fillText{text: tasks.FillText(tasks.FillJoined, r.news)}
	r.names = append(r.names, r.news...)
	r.list, r.news, r.latest = nil, nil, time.Now()
	for _, m := range r.members {
		m.told(text)
	}
}

// leave is not told to the others: nobody asks here.
func (r *fillRoom) leave(m fillMember) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.members, m); i >= 0 {
		r.members = slices.Delete(r.members, i, i+1)
	}
}

// handleFill serves them with gorilla/websocket.
func handleFill(mux *http.ServeMux) {
	var rooms fillRooms
	mux.HandleFunc(tasks.FillPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		room, name := rooms.room(q.Get("room")), q.Get("name")
		conn, err := frugal.Upgrade(w, r, nil)
		if err != nil {
			return // answered
		}
		m := &chatMember{conn: conn, gone: make(chan struct{}),
			queue: make(chan *websocket.PreparedMessage, tasks.Queue)}
		go m.write()
		room.enter(name, m)
		go func() {
			m.read()
			room.leave(m)
			close(m.gone)
			conn.Close()
		}()
	})
}

func (m *chatMember) told(text *fillText) {
	text.once.Do(func() {
		text.frame, _ = websocket.NewPreparedMessage(websocket.TextMessage, text.text)
	})
	select {
	case m.queue <- text.frame:
	default:
		m.conn.Close() // too slow
	}
}
