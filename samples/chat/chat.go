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
	lobby        = "lobby" // the room of clients that name none
	remembered   = 500     // messages of a room, for clients that come later
	pageful      = 50      // messages in one frame of history
	messageQueue = 512     // messages that a socket may be behind; one further behind misses some
)

var upgrader = websocket.Upgrader{ReadLimit: maxFrame}

// chat gives a socket to a person.
func chat(req *lwango.Request, resp *lwango.Response) int {
	return upgrader.Serve(req, resp, take(req))
}

// seat is one person's socket in a room, from its beginning to its end. Between what it gets and
// what it says it waits as a record: it has no thread that runs.
type seat struct {
	where, name string
	after       string // the last message that the client saw on an earlier socket, if any
	refused     error  // why the client gets no seat

	room              *room // nil: not yet, or not any more
	topic             *pubsub.Topic
	messages, notices *pubsub.Subscription
	reportedDropped   int  // dropped messages, as far as the client was told of them
	apart             bool // the client gets no notice before a list of all people

	quota quota
	held  []frame // messages that wait for the quota
	bytes int     // of their text
}

// take takes what the seat needs from the request, of which nothing is left later.
func take(req *lwango.Request) *seat {
	query := req.Query()
	s := &seat{after: query.Get("after"), quota: newQuota(time.Now())}
	var err error
	if s.name, err = checkName("name", query.Get("name")); err == nil {
		s.where, err = checkName("room", cmp.Or(query.Get("room"), lobby))
	}
	if err != nil {
		s.refused = refuse(websocket.PolicyViolation, "%v", err)
	} else if goAway, err := admit(req, s.where); err != nil {
		s.refused = refuse(websocket.TryAgainLater, "%v", err)
	} else {
		req.Defer(goAway) // when the socket ends
	}
	return s
}

// Open implements websocket.Handler.
func (s *seat) Open(c *websocket.Conn) { s.answer(c, s.sit(c)) }

// answer sends a client away if there is an error that it is to be told.
func (s *seat) answer(c *websocket.Conn, err error) {
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		s.leave()
		_ = c.Close(e.Code, e.Text) // this does nothing if the client has closed
	}
}

// sit gives a person the seat: what was said so far, and who is there.
func (s *seat) sit(c *websocket.Conn) (err error) {
	if s.refused != nil {
		return s.refused
	}
	if s.room, err = enter(c.Thread(), s.where, s.name); err != nil {
		return refuse(websocket.TryAgainLater, "%v", err)
	}
	s.topic = said(s.where)
	s.messages = c.Subscribe(s.topic, pubsub.Options{History: remembered, Queue: messageQueue},
		func(c *websocket.Conn, m *pubsub.Message) { s.answer(c, s.hear(c, m)) })
	if err := s.history(c, next(s.messages)); err != nil {
		return err
	}
	return s.list(c) // at once if this is a person's second window
}

// leave gives the seat up.
func (s *seat) leave() {
	if s.room != nil {
		s.room.leave(s.name)
		s.room = nil
	}
}

// Closed implements websocket.Handler.
func (s *seat) Closed(*websocket.Conn, *websocket.CloseError) { s.leave() }

// quota is how much a client may still send.
type quota struct{ frames, messages, typing allowance }

func newQuota(now time.Time) quota {
	return quota{
		frames:   newAllowance(frameBurst, frameRate, now),
		messages: newAllowance(burst, rate, now),
		typing:   newAllowance(typingBurst, typingRate, now),
	}
}

func send(c *websocket.Conn, n notice) error { return c.WriteMessage(websocket.Text, n.encode()) }

// Message implements websocket.Handler: it takes what the person sends.
func (s *seat) Message(c *websocket.Conn, kind int, p []byte) {
	err := s.read(c, kind, p)
	if err == nil {
		err = s.speak(c)
	}
	s.answer(c, err)
}

func (s *seat) read(c *websocket.Conn, kind int, p []byte) error {
	f, err := parseFrame(kind, p)
	if err != nil {
		return err
	}
	cost := 1.
	if f.kind == "older" {
		cost = olderCost
	}
	now := time.Now()
	if !s.quota.frames.take(cost, now) {
		return refuse(websocket.PolicyViolation, "too many frames")
	}
	switch f.kind {
	case "typing":
		if s.quota.typing.take(1, now) {
			s.room.typing(s.name)
		}
	case "ping":
		return send(c, notice{Type: "pong", Room: s.where})
	case "older":
		return c.WriteMessage(websocket.Text, older(c.Thread(), s.where, f.id))
	default:
		if len(s.held) == maxHeld || s.bytes+len(f.text) > maxHeldBytes {
			return refuse(websocket.PolicyViolation, "too many messages")
		}
		s.held = append(s.held, f)
		s.bytes += len(f.text)
	}
	return nil
}

// speak publishes held messages, as far as the quota allows, and acknowledges them. It is called
// again when the quota allows the next one.
func (s *seat) speak(c *websocket.Conn) error {
	for len(s.held) > 0 && s.quota.messages.take(1, time.Now()) {
		f := s.held[0]
		s.bytes -= len(f.text)
		if s.held = s.held[1:]; len(s.held) == 0 {
			s.held = nil
		}
		if f.text != "" {
			s.topic.Publish(message(s.where, s.name, f))
		}
		if f.id != "" {
			if err := send(c, notice{Type: "ack", Room: s.where, ID: f.id}); err != nil {
				return err
			}
		}
	}
	if len(s.held) > 0 {
		c.After(s.quota.messages.wait(time.Now()), func(c *websocket.Conn) { s.answer(c, s.speak(c)) })
	}
	return nil
}

// hear passes on a message; with it, if it is one of history, all others that are there.
func (s *seat) hear(c *websocket.Conn, m *pubsub.Message) error {
	if n := s.messages.Dropped(); n > s.reportedDropped {
		missed := n - s.reportedDropped
		s.reportedDropped = n
		if err := send(c, lost(s.where, missed)); err != nil {
			return err
		}
	}
	switch {
	case m == nil || !parsed(m).counts(m):
		return nil
	case s.messages.History(): // other processes remember messages that this one did not know
		return s.history(c, m)
	default:
		return c.WritePrepared(prepared(m))
	}
}

// history sends what was said before, beginning with m.
func (s *seat) history(c *websocket.Conn, m *pubsub.Message) error {
	all := present(m, s.messages)
	return c.WriteMessage(websocket.Text, history(s.where, s.name, s.after, all))
}

// notice passes on that people come or go, or that a person is typing. A client that has missed
// some of that gets a list of all people instead, which tells all of it, outages included.
func (s *seat) notice(c *websocket.Conn, m *pubsub.Message) error {
	switch {
	case m == nil: // of a subscription that was ended for a list
		return nil
	case s.apart, s.notices.Dropped() > 0:
		return s.list(c)
	}
	return c.WritePrepared(prepared(m))
}

// list sends a list of all people, as soon as this person is among them, and from then on what
// changes.
func (s *seat) list(c *websocket.Conn) error {
	if s.notices != nil {
		s.notices.Unsubscribe()
	}
	from := &follower{room: s.room}
	s.notices = c.Subscribe(from, pubsub.Options{Queue: noticeQueue},
		func(c *websocket.Conn, m *pubsub.Message) { s.answer(c, s.notice(c, m)) })
	s.apart = !from.roster.Has(s.name)
	if s.apart {
		return nil // the notice that this person has come is still to come
	}
	err := c.WritePrepared(s.room.list(from.roster))
	if err == nil && !hub.Carried() {
		err = send(c, outage(s.where, false))
	}
	return err
}

// said is the topic of a room's messages.
func said(room string) *pubsub.Topic { return hub.Topic("chat " + room) }
