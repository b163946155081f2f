package main

import (
	"cmp"
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

const (
	lobby        = "lobby" // the room of clients that name none
	remembered   = 500     // messages of a room, for clients that come later
	pageful      = 50      // messages in one frame of history
	messageQueue = 512     // messages that a socket may be behind; one further behind misses some
)

var upgrader = websocket.Upgrader{ReadLimit: maxFrame}

// chat is one socket, from its beginning to its end.
func chat(req *lwango.Request, resp *lwango.Response) int {
	c, err := upgrader.Upgrade(req, resp)
	if err != nil {
		return websocket.Status(err)
	}
	if e, ok := errors.AsType[*websocket.CloseError](converse(req, c)); ok {
		_ = c.Close(e.Code, e.Text) // this does nothing if the client has closed
	}
	return 0
}

// converse lets one person take part in a room, until the socket ends. It returns the reason.
func converse(req *lwango.Request, c *websocket.Conn) error {
	s, err := sit(req, c)
	if err != nil {
		return err
	}
	defer s.leave()
	if err := s.history(next(s.messages)); err != nil {
		return err
	}
	if err := s.list(); err != nil { // if this is a person's second window
		return err
	}
	for {
		if err := s.speak(); err != nil {
			return err
		}
		if err := s.await(); err != nil {
			return err
		}
	}
}

// seat is one person's socket in a room.
type seat struct {
	*websocket.Conn
	thread *loop.Thread
	room   *room
	name   string
	after  string // the last message that the client saw on an earlier socket, if any
	goAway func() // gives back what admit has given

	topic             *pubsub.Topic
	messages, notices *pubsub.Subscription
	unheard           int  // dropped messages, as far as the client was told of them
	apart             bool // the client gets no notice before a list of all people

	quota quota
	held  []frame // messages that wait for the quota
	bytes int     // of their text
}

// sit gives a person a seat in the room that the request names. It is to be followed by leave,
// unless there is an error, which is what the client is told.
func sit(req *lwango.Request, c *websocket.Conn) (*seat, error) {
	query := req.Query()
	name, err := checkName("name", query.Get("name"))
	if err != nil {
		return nil, refuse(websocket.PolicyViolation, "%v", err)
	}
	where, err := checkName("room", cmp.Or(query.Get("room"), lobby))
	if err != nil {
		return nil, refuse(websocket.PolicyViolation, "%v", err)
	}
	goAway, err := admit(req, where)
	if err != nil {
		return nil, refuse(websocket.TryAgainLater, "%v", err)
	}
	room, notices, err := enter(req.Thread, where, name)
	if err != nil {
		goAway()
		return nil, refuse(websocket.TryAgainLater, "%v", err)
	}
	topic := said(where)
	return &seat{
		Conn: c, thread: req.Thread, room: room, name: name, after: query.Get("after"),
		goAway: goAway, topic: topic, messages: topic.Subscribe(req.Thread, pubsub.Options{
			History: remembered, Queue: messageQueue,
		}),
		notices: notices, apart: true, quota: newQuota(time.Now()),
	}, nil
}

func (s *seat) leave() {
	s.room.leave(s.name)
	s.goAway()
}

// await waits for something to come, and handles it, or until a held message may be sent.
func (s *seat) await() error {
	ready, err := s.AwaitAny(s.wait(), s.Conn, s.messages, s.notices)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return err
	case ready == 0:
		return s.read()
	case ready == 1:
		return s.hear()
	}
	return s.notice()
}

// quota is how much a client may still send.
type quota struct{ frames, messages, typing allowance }

func newQuota(now time.Time) quota {
	return quota{
		frames:   newAllowance(frameBurst, frameRate, now),
		messages: newAllowance(burst, rate, now),
		typing:   newAllowance(typingBurst, typingRate, now),
	}
}

func (s *seat) send(n notice) error { return s.WriteMessage(websocket.Text, n.encode()) }

// read takes what the person sends.
func (s *seat) read() error {
	kind, p, err := s.ReadMessage()
	if err != nil {
		return err
	}
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
		return s.send(notice{Type: "pong", Room: s.room.name})
	case "older":
		return s.WriteMessage(websocket.Text, older(s.thread, s.room.name, f.id))
	default:
		if len(s.held) == maxHeld || s.bytes+len(f.text) > maxHeldBytes {
			return refuse(websocket.PolicyViolation, "too many messages")
		}
		s.held = append(s.held, f)
		s.bytes += len(f.text)
	}
	return nil
}

// speak publishes held messages, as far as the quota allows, and acknowledges them.
func (s *seat) speak() error {
	for len(s.held) > 0 && s.quota.messages.take(1, time.Now()) {
		f := s.held[0]
		s.bytes -= len(f.text)
		if s.held = s.held[1:]; len(s.held) == 0 {
			s.held = nil
		}
		if f.text != "" {
			s.topic.Publish(message(s.room.name, s.name, f))
		}
		if f.id != "" {
			if err := s.send(notice{Type: "ack", Room: s.room.name, ID: f.id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait returns how long it takes until a held message may be sent, negative if none is held.
func (s *seat) wait() time.Duration {
	if len(s.held) == 0 {
		return -1
	}
	return s.quota.messages.wait(time.Now())
}

// hear passes on the next message.
func (s *seat) hear() error {
	m := next(s.messages)
	if n := s.messages.Dropped(); n > s.unheard {
		missed := n - s.unheard
		s.unheard = n
		if err := s.send(lost(s.room.name, missed)); err != nil {
			return err
		}
	}
	switch {
	case m == nil:
		return nil
	case s.messages.History(): // other processes remember messages that this one did not know
		return s.history(m)
	default:
		return s.WritePrepared(prepared(m))
	}
}

// history sends what was said before, beginning with m.
func (s *seat) history(m *pubsub.Message) error {
	all := present(m, s.messages)
	return s.WriteMessage(websocket.Text, history(s.room.name, s.name, s.after, all))
}

// notice passes on that people come or go, or that a person is typing. A client that has missed
// some of that gets a list of all people instead, which tells all of it, outages included.
func (s *seat) notice() error {
	if s.notices.Dropped() > 0 {
		s.apart = true
	}
	if s.apart {
		return s.list()
	}
	m := s.notices.Next()
	if m == nil {
		return nil
	}
	return s.WritePrepared(prepared(m))
}

// list sends a list of all people, as soon as this person is among them, and from then on what
// changes.
func (s *seat) list() error {
	s.notices.Unsubscribe()
	notices, roster := s.room.follow(s.thread)
	s.notices, s.apart = notices, !roster.Has(s.name)
	if s.apart {
		return nil // the notice that this person has come is still to come
	}
	err := s.WritePrepared(s.room.list(roster))
	if err == nil && !hub.Carried() {
		err = s.send(outage(s.room.name, false))
	}
	return err
}

// said is the topic of a room's messages.
func said(room string) *pubsub.Topic { return hub.Topic("chat " + room) }
