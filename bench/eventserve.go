package main

import (
	"io"
	"net/http"

	"github.com/lwango/lwango/bench/tasks"
)

// An eventQueue is what is to be sent on an event stream.
type eventQueue chan []byte

func (q eventQueue) hear(text []byte) bool {
	select {
	case q <- text:
		return true
	default:
		return false
	}
}

// handleEvents serves event streams as one writes them with net/http: the handler waits on a queue.
func handleEvents(mux *http.ServeMux) {
	var rooms textRooms
	mux.HandleFunc(tasks.EventsPath, func(w http.ResponseWriter, r *http.Request) {
		room, queue := rooms.room(r.URL.Query().Get("room")), make(eventQueue, tasks.Queue)
		room.join(queue)
		defer room.leave(queue)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		for err := flush(); err == nil; {
			select {
			case event := <-queue:
				if _, err = w.Write(event); err == nil {
					err = flush()
				}
			case <-r.Context().Done():
				return
			}
		}
	})
	event := []byte("data: " + tasks.Said + "\n\n")
	mux.HandleFunc(tasks.SayPath, func(w http.ResponseWriter, r *http.Request) {
		rooms.room(r.URL.Query().Get("room")).publish(event)
		io.WriteString(w, hello)
	})
}
