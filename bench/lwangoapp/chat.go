package main

import (
	"net/http"
	"strings"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/chatrules"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

var (
	upgrader = websocket.Upgrader{
		ReadLimit:    chatrules.MessageLimit,
		PingInterval: chatrules.PingEvery,
		IdleTimeout:  chatrules.DeadAfter,
		WriteTimeout: chatrules.WriteLimit,
	}

	// frame is made once for a whole room.
	frame = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
		m, _ := websocket.Prepare(websocket.Text, data) // fails for no text
		return m
	})
)

// room sends what a member says to all who are in the same room, as it came.
func room(req *lwango.Request, resp *lwango.Response) int {
	c, err := upgrader.Upgrade(req, resp)
	if err != nil {
		return websocket.Status(err)
	}
	name := strings.Clone(req.Query().Get("room")) // a part of the request's head would keep all of it
	topic := lwango.Topics().Topic(name)
	heard := topic.Subscribe(req.Thread, pubsub.Options{Queue: chatrules.Queue, Policy: pubsub.Disconnect})
	for {
		i, err := c.AwaitAny(-1, c, heard)
		if err != nil {
			return 0
		}
		if i == 0 {
			_, text, err := c.ReadMessage()
			if err != nil {
				return 0
			}
			topic.Publish(text)
			continue
		}
		for m := heard.Next(); m != nil; m = heard.Next() {
			if c.WritePrepared(frame(m)) != nil {
				return 0
			}
		}
		if heard.Err() != nil {
			return 0 // too slow
		}
	}
}

// echoMessages sends back what comes.
func echoMessages(req *lwango.Request, resp *lwango.Response) int {
	c, err := upgrader.Upgrade(req, resp)
	if err != nil {
		return websocket.Status(err)
	}
	for {
		kind, text, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, text) != nil {
			return 0
		}
	}
}

// collect is off the loop: it takes its time.
func collect(req *lwango.Request, resp *lwango.Response) int {
	if err := req.Await(func() error { chatrules.Collect(); return nil }, -1); err != nil {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}
