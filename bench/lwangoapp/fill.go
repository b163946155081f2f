package main

import (
	"encoding/json"
	"strings"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/tasks"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

// An entrant is a member of a place, which tells its members who is there.
type entrant struct {
	place *pubsub.Presence
	name  string
}

func fill(req *lwango.Request, resp *lwango.Response) int {
	q := req.Query()
	return upgrader.Serve(req, resp, &entrant{
		lwango.Topics().Topic("place " + q.Get("room")).Presence(), strings.Clone(q.Get("name")),
	})
}

func (e *entrant) Open(c *websocket.Conn) {
	e.place.Join(e.name)
	c.Subscribe(e.place, queue, e.pass)
}

func (e *entrant) pass(c *websocket.Conn, m *pubsub.Message) {
	if m == nil {
		_ = c.Close(websocket.TryAgainLater, "too slow")
	} else if frame := news(m); frame != nil {
		_ = c.WritePrepared(frame)
	}
}

// news is a message of a place as it goes out: made once for all who get the same.
var news = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
	var c pubsub.Change
	_ = json.Unmarshal(data, &c) // a Presence has made it
	var text []byte
	switch {
	case c.List:
		text = tasks.FillText(tasks.FillList, c.Joined)
	case len(c.Joined) > 0: // of those who leave nobody asks here
		text = tasks.FillText(tasks.FillJoined, c.Joined)
	default:
		return nil
	}
	frame, _ := websocket.Prepare(websocket.Text, text)
	return frame
})

func (e *entrant) Message(*websocket.Conn, int, []byte) {}

func (e *entrant) Closed(*websocket.Conn, *websocket.CloseError) { e.place.Leave(e.name) }
