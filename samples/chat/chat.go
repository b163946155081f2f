package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

const (
	lobby        = "lobby" // the room of those who name none
	remembered   = 50      // messages that who comes gets to see
	messageQueue = 256     // messages that a socket may be behind; whoever is slower misses some, and is told
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
	messages := topic.Subscribe(req.Thread, pubsub.Options{History: remembered, Queue: messageQueue})
	if err := c.WriteMessage(websocket.Text, history(where, next(messages), messages)); err != nil {
		return err
	}
	room, notices := enter(req.Thread, where, name)
	defer room.leave(name)
	if err := c.WriteMessage(websocket.Text, room.presence(name)); err != nil {
		return err
	}
	if !hub.Carried() {
		if err := c.WriteMessage(websocket.Text, outage(where, false).encode()); err != nil {
			return err
		}
	}

	allowed := newAllowance(time.Now())
	unheard, unnoticed := 0, 0 // how much was missed, by being slow
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
			if !allowed.take(time.Now()) {
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
			m := next(messages)
			if n := messages.Dropped(); n > unheard {
				err = c.WriteMessage(websocket.Text, lost(where, n-unheard).encode())
				unheard = n
			}
			switch {
			case err != nil || m == nil:
			case messages.History(): // other processes remember what this one has not known
				err = c.WriteMessage(websocket.Text, history(where, m, messages))
			default:
				err = c.WritePrepared(prepared(m))
			}

		case 2: // somebody comes, goes or is typing
			m := notices.Next()
			if n := notices.Dropped(); n > unnoticed {
				unnoticed = n
				for notices.Next() != nil { // the list has it all, but for an outage
				}
				err = c.WriteMessage(websocket.Text, room.presence(name))
				if err == nil && !hub.Carried() {
					err = c.WriteMessage(websocket.Text, outage(where, false).encode())
				}
			} else {
				err = c.WritePrepared(prepared(m))
			}
		}
		if err != nil {
			return err
		}
	}
}

// said is where the messages of a room go.
func said(room string) *pubsub.Topic { return hub.Topic("chat " + room) }
