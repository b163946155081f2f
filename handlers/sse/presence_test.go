package sse_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// watcher sends who is there.
type watcher struct{ people *pubsub.Presence }

func (w watcher) Open(s *sse.Stream) {
	s.Subscribe(w.people, pubsub.Options{}, func(s *sse.Stream, m *pubsub.Message) {
		if m != nil {
			_ = s.Send(sse.Event{Data: m.Data})
		}
	})
}

func (watcher) Closed(*sse.Stream, error) {}

// A stream gets the list of a Presence, and then what changes.
func TestServePresence(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		people := new(pubsub.Hub).Topic("room").Presence()
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			return sse.Serve(req, resp, watcher{people})
		}})
		resp, _ := get(s, "GET / HTTP/1.1")
		expect(t, resp.Body,
			dispatched{name: "message", data: `{"topic":"room","list":true,"count":0}`})
		people.Join("Ann")
		expect(t, resp.Body,
			dispatched{name: "message", data: `{"topic":"room","joined":["Ann"],"count":1}`})
	})
}
