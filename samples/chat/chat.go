package main

import (
	"cmp"
	"errors"
	"net/netip"
	"strings"
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
	guest       *guest   // nil: not yet, or the address has no limits
	opening     *opening // nil: it has begun

	messages, notices *pubsub.Subscription
	reportedDropped   int  // dropped messages, as far as the client was told of them
	entered           bool // it is in the room
	apart             bool // the client gets no notice before a list of all people
	cutOff            bool // the client was told that other processes cannot be reached

	frames, says, types allowance // what the client may still send
	held                *held     // nil: nothing waits
}

// opening is what a seat needs at its beginning alone.
type opening struct {
	from    netip.Addr
	after   string // the last message that the client saw on an earlier socket, if any
	refused error  // why the client gets no seat
}

// held is what waits for the quota.
type held struct {
	frames []frame
	bytes  int // of their text
}

// take takes what the seat needs from the request, of which nothing is left later.
func take(req *lwango.Request) *seat {
	query := req.Query()
	o := &opening{from: req.RemoteAddr().Addr(), after: strings.Clone(query.Get("after"))}
	s := &seat{opening: o}
	var err error
	if s.name, err = checkName("name", query.Get("name")); err == nil {
		s.where, err = checkName("room", cmp.Or(query.Get("room"), lobby))
	}
	if err != nil {
		o.refused = refuse(websocket.PolicyViolation, "%v", err)
	}
	s.name, s.where = strings.Clone(s.name), strings.Clone(s.where)
	return s
}

// Open implements websocket.Handler.
func (s *seat) Open(c *websocket.Conn) {
	o := s.opening
	s.opening = nil
	s.answer(c, s.sit(c, o))
}

// answer sends a client away if there is an error that it is to be told.
func (s *seat) answer(c *websocket.Conn, err error) {
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		s.leave()
		_ = c.Close(e.Code, e.Text) // this does nothing if the client has closed
	}
}

// sit gives a person the seat: what was said so far, and who is there.
func (s *seat) sit(c *websocket.Conn, o *opening) (err error) {
	if o.refused != nil {
		return o.refused
	}
	if s.guest, err = admitTo(s.where, o.from); err != nil {
		return refuse(websocket.TryAgainLater, "%v", err)
	}
	if err = enter(s.where, s.name); err != nil {
		return refuse(websocket.TryAgainLater, "%v", err)
	}
	s.entered = true
	after := o.after
	s.messages = c.Subscribe(said(s.where), pubsub.Options{History: remembered, Queue: messageQueue},
		func(c *websocket.Conn, m *pubsub.Message) { s.answer(c, s.hear(c, m, after)) })
	if err := s.history(c, next(s.messages), after); err != nil {
		return err
	}
	s.list(c) // at once if this is a person's second window
	return nil
}

// leave gives the seat up.
func (s *seat) leave() {
	if s.entered {
		s.entered = false
		exit(s.where, s.name)
	}
}

// Closed implements websocket.Handler.
func (s *seat) Closed(*websocket.Conn, *websocket.CloseError) {
	s.leave()
	s.guest.leave(s.where)
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
	if !s.frames.take(frameLimit, cost, now) {
		return refuse(websocket.PolicyViolation, "too many frames")
	}
	switch f.kind {
	case "typing":
		if s.types.take(typingLimit, 1, now) {
			typing(s.where, s.name)
		}
	case "ping":
		return send(c, notice{Type: "pong", Room: s.where})
	case "older":
		return c.WriteMessage(websocket.Text, older(c.Thread(), s.where, f.id))
	default:
		if s.held == nil {
			s.held = new(held)
		}
		h := s.held
		if len(h.frames) == maxHeld || h.bytes+len(f.text) > maxHeldBytes {
			return refuse(websocket.PolicyViolation, "too many messages")
		}
		h.frames = append(h.frames, f)
		h.bytes += len(f.text)
	}
	return nil
}

// speak publishes held messages, as far as the quota allows, and acknowledges them. It is called
// again when the quota allows the next one.
func (s *seat) speak(c *websocket.Conn) error {
	for s.held != nil && s.says.take(sayLimit, 1, time.Now()) {
		h := s.held
		f := h.frames[0]
		h.bytes -= len(f.text)
		if h.frames = h.frames[1:]; len(h.frames) == 0 {
			s.held = nil
		}
		if f.text != "" {
			said(s.where).Publish(message(s.where, s.name, f))
		}
		if f.id != "" {
			if err := send(c, notice{Type: "ack", Room: s.where, ID: f.id}); err != nil {
				return err
			}
		}
	}
	if s.held != nil {
		c.After(s.says.wait(sayLimit, time.Now()),
			func(c *websocket.Conn) { s.answer(c, s.speak(c)) })
	}
	return nil
}

// hear passes on a message; with it, if it is one of history, all others that are there.
func (s *seat) hear(c *websocket.Conn, m *pubsub.Message, after string) error {
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
		return s.history(c, m, after)
	default:
		return c.WritePrepared(prepared(m))
	}
}

// history sends what was said before, beginning with m.
func (s *seat) history(c *websocket.Conn, m *pubsub.Message, after string) error {
	all := present(m, s.messages)
	return c.WriteMessage(websocket.Text, history(s.where, s.name, after, all))
}

// notice passes on a list of all people, that people come or go, or that a person is typing. A
// client that has missed some of that gets a list again, which tells all of it.
func (s *seat) notice(c *websocket.Conn, m *pubsub.Message) error {
	if m == nil { // of a subscription that was ended for a list
		return nil
	}
	n := newsOf(m)
	switch {
	case n.List:
		if s.apart = !n.has(s.name); s.apart {
			return nil // that this person has come is still to be told
		}
	case s.apart, s.notices.Dropped() > 0:
		s.list(c)
		return nil
	}
	err := c.WritePrepared(n.frames...)
	if cut := n.Stale == pubsub.CutOff; err == nil && n.Topic != "" && cut != s.cutOff {
		s.cutOff = cut
		err = send(c, outage(s.where, !cut))
	}
	return err
}

// list subscribes to a list of all people, and from then on to what changes.
func (s *seat) list(c *websocket.Conn) {
	if s.notices != nil {
		s.notices.Unsubscribe()
	}
	s.notices = c.Subscribe(people(s.where), pubsub.Options{Queue: noticeQueue},
		func(c *websocket.Conn, m *pubsub.Message) { s.answer(c, s.notice(c, m)) })
}

// said is the topic of a room's messages.
func said(room string) *pubsub.Topic { return hub.Topic(saidTo + room) }

// roomOf is the room of a topic.
func roomOf(topic string) string { return strings.TrimPrefix(topic, saidTo) }

const saidTo = "chat "
