package main

import (
	"cmp"
	"errors"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

const (
	lobby        = "lobby" // the room of those who name none
	remembered   = 50      // messages that who comes gets to see
	messageQueue = 256     // messages that a socket may be behind, before it is better off coming anew
)

var upgrader = websocket.Upgrader{ReadLimit: maxFrame}

// chat is one socket, from its beginning to its end.
func chat(req *lwango.Request, resp *lwango.Response) int {
	c, err := upgrader.Upgrade(req, resp)
	if err != nil {
		return websocket.Status(err)
	}
	if e, ok := errors.AsType[*websocket.CloseError](converse(req, c)); ok {
		_ = c.Close(e.Code, e.Text) // which does nothing where it is the client that has closed
	}
	return 0
}

// converse has one person take part in a room. It returns why that has come to an end.
func converse(req *lwango.Request, c *websocket.Conn) error {
	name, err := checkName("name", req.Query().Get("name"))
	if err != nil {
		return refuse(websocket.PolicyViolation, "%v", err)
	}
	where, err := checkName("room", cmp.Or(req.Query().Get("room"), lobby))
	if err != nil {
		return refuse(websocket.PolicyViolation, "%v", err)
	}

	topic := said(where)
	messages := topic.Subscribe(req.Thread, pubsub.Options{History: remembered, Queue: messageQueue, Policy: pubsub.Disconnect})
	if err := c.WriteMessage(websocket.Text, history(where, messages)); err != nil {
		return err
	}
	room, notices := enter(req.Thread, where, name)
	defer room.leave(name)
	if err := c.WriteMessage(websocket.Text, room.presence(name)); err != nil {
		return err
	}

	left := newAllowance(req.Loop().Time())
	missed := 0 // notices
	for {
		ready, err := c.AwaitAny(-1, c, messages, notices)
		if err != nil {
			return err
		}
		switch ready {
		case 0: // the person
			kind, p, err := c.ReadMessage()
			if err != nil {
				return err
			}
			if !left.take(req.Loop().Time()) {
				return refuse(websocket.PolicyViolation, "too many messages")
			}
			f, err := parseFrame(kind, p)
			switch {
			case err != nil:
				return err
			case f.typing:
				room.typing(name)
			case f.text != "":
				topic.Publish(message(where, name, f.text))
			}

		case 1: // somebody has said something
			m := messages.Next()
			if m == nil {
				return refuse(websocket.TryAgainLater, "too slow")
			}
			if err := c.WritePrepared(prepared(m)); err != nil {
				return err
			}

		case 2: // somebody comes, goes or is typing
			m := notices.Next()
			if n := notices.Dropped(); n > missed {
				missed = n
				err = c.WriteMessage(websocket.Text, room.presence(name))
			} else {
				err = c.WritePrepared(prepared(m))
			}
			if err != nil {
				return err
			}
		}
	}
}

// said is where the messages of a room go.
func said(room string) *pubsub.Topic { return hub.Topic("chat " + room) }
