package main

import (
	"cmp"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/pubsub"
)

// follow sends what is said in a room as events. A client that comes back after an interruption
// goes on where it was.
func follow(req *lwango.Request, resp *lwango.Response) int {
	room, err := checkName("room", cmp.Or(req.Query().Get("room"), lobby))
	if err != nil {
		resp.WriteString(err.Error() + "\n")
		return 400
	}
	goAway, err := admit(req)
	if err != nil {
		return later(resp, err)
	}
	req.Defer(goAway) // when the stream ends
	return sse.Serve(req, resp, listener{room})
}

// listener is a stream of what is said in a room.
type listener struct{ room string }

// Open implements sse.Handler.
func (l listener) Open(s *sse.Stream) {
	s.Subscribe(said(l.room), pubsub.Options{
		After: s.LastEventID(), History: pageful, Queue: messageQueue, Policy: pubsub.Disconnect,
	}, func(s *sse.Stream, m *pubsub.Message) {
		switch {
		case m == nil: // too slow: the browser comes back, and goes on where it was
			s.Close()
		case parsed(m).counts(m):
			_ = s.Send(sse.Event{ID: m.ID, Data: m.Data}) // an error ends the stream
		}
	})
}

// Closed implements sse.Handler.
func (listener) Closed(*sse.Stream, error) {}
