package main

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// A coderMember is a member of a room, or an echo, by net/http and coder/websocket: two goroutines
// that outlive the handler, as with gorilla. The library makes no frame for many, and its limits of
// time are contexts.
type coderMember struct {
	conn  *websocket.Conn
	queue chan []byte
	gone  chan struct{} // closed when it reads no more
}

func handleCoder(mux *http.ServeMux) {
	var rooms textRooms
	mux.HandleFunc(tasks.RoomPath, func(w http.ResponseWriter, r *http.Request) {
		serveCoder(w, r, rooms.room(r.URL.Query().Get("room")))
	})
	mux.HandleFunc(tasks.EchoPath, func(w http.ResponseWriter, r *http.Request) {
		serveCoder(w, r, nil)
	})
	mux.HandleFunc(tasks.DeflatePath, func(w http.ResponseWriter, r *http.Request) {
		if conn := acceptCoder(w, r, websocket.CompressionContextTakeover); conn != nil {
			m := &coderMember{conn: conn}
			m.read(nil)
			conn.CloseNow()
		}
	})
}

// acceptCoder has no limit of its own for the handshake, and compresses where mode says so.
func acceptCoder(w http.ResponseWriter, r *http.Request,
	mode websocket.CompressionMode) *websocket.Conn {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: mode})
	if err != nil {
		return nil // answered
	}
	conn.SetReadLimit(tasks.MessageLimit)
	return conn
}

// serveCoder serves a member of a room; of none, an echo.
func serveCoder(w http.ResponseWriter, r *http.Request, room *textRoom) {
	conn := acceptCoder(w, r, websocket.CompressionDisabled)
	if conn == nil {
		return
	}
	m := &coderMember{conn: conn, gone: make(chan struct{})}
	if room != nil {
		m.queue = make(chan []byte, tasks.Queue)
		room.join(m)
	}
	go m.write()
	go func() {
		m.read(room)
		if room != nil {
			room.leave(m)
		}
		close(m.gone)
		conn.CloseNow()
	}()
}

func (m *coderMember) hear(text []byte) bool {
	select {
	case m.queue <- text:
		return true
	default:
		return false
	}
}

func (m *coderMember) read(room *textRoom) {
	for {
		kind, text, err := m.conn.Read(context.Background())
		switch {
		case err != nil || !utf8.Valid(text):
			return
		case room == nil:
			if m.send(kind, text) != nil {
				return
			}
		default:
			for _, slow := range room.publish(text) {
				// Its read fails, which ends the rest. To close it may wait.
				go slow.(*coderMember).conn.CloseNow()
			}
		}
	}
}

func (m *coderMember) send(kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), tasks.WriteLimit)
	defer cancel()
	return m.conn.Write(ctx, kind, text)
}

// write also pings: no pong within the rest of the time means that nobody is there.
func (m *coderMember) write() {
	ping := time.NewTicker(tasks.PingEvery)
	defer ping.Stop()
	defer m.conn.CloseNow()
	for err := error(nil); err == nil; {
		select {
		case text := <-m.queue:
			err = m.send(websocket.MessageText, text)
		case <-ping.C:
			ctx, cancel := context.WithTimeout(context.Background(), tasks.DeadAfter-tasks.PingEvery)
			err = m.conn.Ping(ctx)
			cancel()
		case <-m.gone:
			return
		}
	}
}
