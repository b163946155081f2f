package main

import (
	"strings"
	"sync"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/tasks"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A place is a room that tells its members who is there.
type place struct {
	pubsub.Presence

	mu     sync.Mutex
	listed *pubsub.Roster
	list   *websocket.PreparedMessage // of listed
}

// places are all, by name.
var places sync.Map

func placeOf(name string) *place {
	if p, ok := places.Load(name); ok {
		return p.(*place)
	}
	topic := lwango.Topics().Topic("place " + name)
	p := &place{Presence: pubsub.Presence{Topic: topic, Publish: func(c pubsub.Change) {
		if len(c.Joined) > 0 { // of those who leave nobody asks here
			topic.Publish(tasks.FillText(tasks.FillJoined, c.Joined))
		}
	}}}
	found, _ := places.LoadOrStore(name, p)
	return found.(*place)
}

// frame is the list as it goes out: made once for all who get the same.
func (p *place) frame(of *pubsub.Roster) *websocket.PreparedMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed != of {
		p.listed = of
		p.list, _ = websocket.Prepare(websocket.Text, tasks.FillText(tasks.FillList, of.Names))
	}
	return p.list
}

// An entrant is a member of a place.
type entrant struct {
	place *place
	name  string
}

func fill(req *lwango.Request, resp *lwango.Response) int {
	q := req.Query()
	return upgrader.Serve(req, resp,
		&entrant{placeOf(strings.Clone(q.Get("room"))), strings.Clone(q.Get("name"))})
}

func (e *entrant) Open(c *websocket.Conn) {
	e.place.Join(e.name)
	from := &follow{Presence: &e.place.Presence}
	c.Relay(from, queue, frame)
	_ = c.WritePrepared(e.place.frame(from.roster))
}

func (e *entrant) Message(*websocket.Conn, int, []byte) {}

func (e *entrant) Closed(*websocket.Conn, *websocket.CloseError) { e.place.Leave(e.name) }

// follow subscribes to a place, from the roster on.
type follow struct {
	*pubsub.Presence
	roster *pubsub.Roster
}

// Subscribe implements websocket.Topic.
func (f *follow) Subscribe(t *loop.Thread, o pubsub.Options) (sub *pubsub.Subscription) {
	sub, f.roster = f.Follow(t, o)
	return sub
}
