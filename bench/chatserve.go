package main

import (
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// frugal has a small buffer for reading, and one for writing from a pool. The Upgrader as it comes
// keeps the two buffers of 4 KiB that net/http had for the request.
var frugal = websocket.Upgrader{
	ReadBufferSize: 1024, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{},
}

// A chatHub is the chat as one writes it well with net/http and gorilla/websocket: two goroutines
// per member, which outlive the handler so that what net/http needs for a request is free again; a
// frame that is made once for all; a bounded queue, whose overflow sends the member away. Safe from
// any goroutine.
type chatHub struct {
	rooms sync.Map // of *chatRoom, by name
}

func handleGorilla(mux *http.ServeMux) {
	handleFill(mux)
	var chat chatHub
	mux.HandleFunc(tasks.RoomPath, func(w http.ResponseWriter, r *http.Request) {
		chat.serve(w, r, chat.room(r.URL.Query().Get("room")))
	})
	mux.HandleFunc(tasks.EchoPath, func(w http.ResponseWriter, r *http.Request) {
		chat.serve(w, r, nil)
	})
	mux.HandleFunc(tasks.DeflatePath, func(w http.ResponseWriter, r *http.Request) {
		u := frugal
		u.EnableCompression = true
		if conn, err := u.Upgrade(w, r, nil); err == nil {
			m := &chatMember{conn: conn}
			m.read()
			conn.Close()
		}
	})
}

func (h *chatHub) room(name string) *chatRoom {
	room, _ := h.rooms.LoadOrStore(name, &chatRoom{})
	return room.(*chatRoom)
}

// A chatRoom keeps its members in a slice, which is quicker to walk than a map.
type chatRoom struct {
	mu      sync.Mutex
	members []*chatMember
}

type chatMember struct {
	conn  *websocket.Conn
	room  *chatRoom // nil: an echo
	queue chan *websocket.PreparedMessage
	gone  chan struct{} // closed when it reads no more
}

// serve reads in one goroutine and writes in another. An echo is written by the one that reads;
// only the pings are the other's.
func (h *chatHub) serve(w http.ResponseWriter, r *http.Request, room *chatRoom) {
	conn, err := frugal.Upgrade(w, r, nil)
	if err != nil {
		return // answered
	}
	m := &chatMember{conn: conn, room: room, gone: make(chan struct{})}
	if room != nil {
		m.queue = make(chan *websocket.PreparedMessage, tasks.Queue)
		room.join(m)
	}
	go m.write()
	go func() {
		m.read()
		if room != nil {
			room.leave(m)
		}
		close(m.gone)
		conn.Close()
	}()
}

func (room *chatRoom) join(m *chatMember) {
	room.mu.Lock()
	defer room.mu.Unlock()
	room.members = append(room.members, m)
}

func (room *chatRoom) leave(m *chatMember) {
	room.mu.Lock()
	defer room.mu.Unlock()
	i := slices.Index(room.members, m)
	room.members = slices.Delete(room.members, i, i+1)
}

// publish never waits. The lock gives all members one order.
func (room *chatRoom) publish(text []byte) error {
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, text)
	if err != nil {
		return err
	}
	room.mu.Lock()
	defer room.mu.Unlock()
	for _, m := range room.members {
		select {
		case m.queue <- message:
		default:
			m.conn.Close() // too slow: its read fails, which ends the rest
		}
	}
	return nil
}

// read bounds messages, and the time without a sign of life, which is an answer to a ping.
func (m *chatMember) read() {
	m.conn.SetReadLimit(tasks.MessageLimit)
	alive := func(string) error { return m.conn.SetReadDeadline(time.Now().Add(tasks.DeadAfter)) }
	alive("")
	m.conn.SetPongHandler(alive)
	for {
		kind, text, err := m.conn.ReadMessage()
		switch {
		case err != nil || !utf8.Valid(text):
			return
		case m.room != nil:
			err = m.room.publish(text)
		default:
			m.conn.SetWriteDeadline(time.Now().Add(tasks.WriteLimit))
			err = m.conn.WriteMessage(kind, text)
		}
		if err != nil {
			return
		}
	}
}

func (m *chatMember) write() {
	ping := time.NewTicker(tasks.PingEvery)
	defer ping.Stop()
	defer m.conn.Close()
	for err := error(nil); err == nil; {
		select {
		case message := <-m.queue:
			m.conn.SetWriteDeadline(time.Now().Add(tasks.WriteLimit))
			err = m.conn.WritePreparedMessage(message)
		case <-ping.C:
			err = m.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(tasks.WriteLimit))
		case <-m.gone:
			return
		}
	}
}
