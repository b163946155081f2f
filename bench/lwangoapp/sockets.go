package main

import (
	"strings"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/tasks"
	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

// This file has what thousands of clients wait for: WebSockets under Serve, and event streams.

var (
	upgrader = websocket.Upgrader{
		ReadLimit:    tasks.MessageLimit,
		PingInterval: tasks.PingEvery,
		IdleTimeout:  tasks.DeadAfter,
		WriteTimeout: tasks.WriteLimit,
	}
	deflating = func() websocket.Upgrader {
		u := upgrader
		u.Compression, u.Takeover, u.PeerTakeover = true, true, true
		return u
	}()

	// frame is made once for a whole room.
	frame = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
		m, _ := websocket.Prepare(websocket.Text, data) // fails for no text
		return m
	})

	queue = pubsub.Options{Queue: tasks.Queue, Policy: pubsub.Disconnect}
)

// topic is the room that the request names.
func topic(req *lwango.Request) *pubsub.Topic {
	// A part of the head would keep all of it.
	return lwango.Topics().Topic(strings.Clone(req.Query().Get("room")))
}

// A member hears all that is said in its room, and says what it sends.
type member struct{ room *pubsub.Topic }

func room(req *lwango.Request, resp *lwango.Response) int {
	return upgrader.Serve(req, resp, &member{topic(req)})
}

func (m *member) Open(c *websocket.Conn) { c.Relay(m.room, queue, frame) }

func (m *member) Message(_ *websocket.Conn, _ int, text []byte) { m.room.Publish(text) }

func (m *member) Closed(*websocket.Conn, *websocket.CloseError) {}

// An echoer sends back what comes.
type echoer struct{}

func echo(req *lwango.Request, resp *lwango.Response) int {
	return upgrader.Serve(req, resp, echoer{})
}

func deflated(req *lwango.Request, resp *lwango.Response) int {
	return deflating.Serve(req, resp, echoer{})
}

func (echoer) Open(*websocket.Conn) {}

func (echoer) Message(c *websocket.Conn, kind int, text []byte) { _ = c.WriteMessage(kind, text) }

func (echoer) Closed(*websocket.Conn, *websocket.CloseError) {}

// A follower has what is said in its room sent.
type follower struct{ room *pubsub.Topic }

func events(req *lwango.Request, resp *lwango.Response) int {
	return sse.Serve(req, resp, &follower{topic(req)})
}

func (f *follower) Open(s *sse.Stream) { s.Subscribe(f.room, queue, tell) }

func tell(s *sse.Stream, m *pubsub.Message) {
	if m == nil {
		s.Close() // too slow
		return
	}
	_ = s.Send(sse.Event{Data: m.Data}) // what fails ends the stream
}

func (f *follower) Closed(*sse.Stream, error) {}

// say says the same in a room, for its event streams.
func say(req *lwango.Request, resp *lwango.Response) int {
	topic(req).Publish([]byte(tasks.Said))
	return helloworld.Serve(req, resp)
}
