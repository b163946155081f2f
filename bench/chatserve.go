package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/chatrules"
)

// serveGorilla is the chat as one writes it well with net/http and gorilla/websocket: two goroutines per member, which
// outlive the handler so that what net/http needs for a request is free again; buffers for writing from a pool; a frame
// that is made once for all; a bounded queue, whose overflow sends the member away.
func serveGorilla(ln net.Listener) error { return serveChat(ln, frugal, chatrules.Queue) }

// serveGorillaPlain is the same with an Upgrader as it comes, and the queue of gorilla's own chat example: each member
// keeps the two buffers of 4 KiB that net/http had for the request.
func serveGorillaPlain(ln net.Listener) error { return serveChat(ln, websocket.Upgrader{}, 256) }

func serveChat(ln net.Listener, upgrader websocket.Upgrader, queue int) error {
	hub := chatHub{upgrader: upgrader, queue: queue, rooms: map[string]*chatRoom{}}
	mux := http.NewServeMux()
	mux.HandleFunc(chatrules.RoomPath, hub.serve)
	mux.HandleFunc(chatrules.EchoPath, hub.echo)
	mux.HandleFunc(chatrules.CollectPath, func(http.ResponseWriter, *http.Request) { chatrules.Collect() })
	return (&http.Server{Handler: mux, IdleTimeout: idleTimeout}).Serve(ln)
}

// frugal has the buffer for reading of gorilla's chat example, and none for writing between messages.
var frugal = websocket.Upgrader{ReadBufferSize: 1024, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{}}

// chatHub is all rooms. Safe from any goroutine.
type chatHub struct {
	upgrader websocket.Upgrader
	queue    int

	mu    sync.Mutex
	rooms map[string]*chatRoom // with at least one member
}

// chatRoom keeps its members in a slice, which is quicker to walk than a map.
type chatRoom struct {
	mu      sync.Mutex
	members []*chatMember
}

type chatMember struct {
	conn  *websocket.Conn
	queue chan *websocket.PreparedMessage
	place int           // in the room's members
	gone  chan struct{} // closed when it reads no more
}

func (h *chatHub) serve(w http.ResponseWriter, r *http.Request) {
	conn, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // answered
	}
	m := &chatMember{conn: conn, queue: make(chan *websocket.PreparedMessage, h.queue), gone: make(chan struct{})}
	name := r.URL.Query().Get("room")
	room := h.join(name, m)
	go m.write()
	go func() {
		m.read(room)
		h.leave(name, room, m)
		close(m.gone)
		conn.Close()
	}()
}

func (h *chatHub) join(name string, m *chatMember) *chatRoom {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.rooms[name]
	if room == nil {
		room = &chatRoom{}
		h.rooms[name] = room
	}
	room.mu.Lock()
	defer room.mu.Unlock()
	m.place = len(room.members)
	room.members = append(room.members, m)
	return room
}

func (h *chatHub) leave(name string, room *chatRoom, m *chatMember) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room.mu.Lock()
	defer room.mu.Unlock()
	last := room.members[len(room.members)-1]
	room.members[m.place], last.place = last, m.place
	room.members = slices.Delete(room.members, len(room.members)-1, len(room.members))
	if len(room.members) == 0 {
		delete(h.rooms, name)
	}
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

func (m *chatMember) read(room *chatRoom) {
	keepAlive(m.conn)
	for {
		_, text, err := m.conn.ReadMessage()
		if err != nil || !utf8.Valid(text) || room.publish(text) != nil {
			return
		}
	}
}

func (m *chatMember) write() {
	ping := time.NewTicker(chatrules.PingEvery)
	defer ping.Stop()
	defer m.conn.Close()
	for {
		var err error
		select {
		case message := <-m.queue:
			m.conn.SetWriteDeadline(time.Now().Add(chatrules.WriteLimit))
			err = m.conn.WritePreparedMessage(message)
		case <-ping.C:
			err = m.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(chatrules.WriteLimit))
		case <-m.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// keepAlive bounds messages, and the time without a sign of life, which is an answer to a ping.
func keepAlive(conn *websocket.Conn) {
	conn.SetReadLimit(chatrules.MessageLimit)
	conn.SetReadDeadline(time.Now().Add(chatrules.DeadAfter))
	conn.SetPongHandler(func(string) error { return conn.SetReadDeadline(time.Now().Add(chatrules.DeadAfter)) })
}

// echo writes from the goroutine that reads; only the pings are another's.
func (h *chatHub) echo(w http.ResponseWriter, r *http.Request) {
	conn, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // answered
	}
	m := &chatMember{conn: conn, gone: make(chan struct{})}
	go m.write()
	go func() {
		defer conn.Close()
		defer close(m.gone)
		keepAlive(conn)
		for {
			kind, text, err := conn.ReadMessage()
			if err != nil || !utf8.Valid(text) {
				return
			}
			conn.SetWriteDeadline(time.Now().Add(chatrules.WriteLimit))
			if err := conn.WriteMessage(kind, text); err != nil {
				return
			}
		}
	}()
}
