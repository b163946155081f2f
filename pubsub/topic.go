package pubsub

import (
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// Topic is a name in one Hub, to which messages are published. Any goroutine may call its methods,
// except Subscribe.
type Topic struct {
	hub  *Hub
	name string
	log  atomic.Pointer[log] // the last one that was found; it may be forgotten by now
}

// Publish gives a message with a copy of data to all subscribers and to the topic's history. It
// never waits, whatever the subscribers do, and costs the same for any number of them, except those
// with DropNewest.
//
// If the hub holds more than Limits.Bytes, the topics that hold most forget messages. A subscriber
// that has not read these learns it as its Policy says.
//
// The messages of one goroutine or thread arrive at each subscriber in the order in which they were
// published.
func (tp *Topic) Publish(data []byte) *Message { return tp.PublishFor(0, data) }

// PublishFor is Publish for a message that means nothing after keep, such as a report that the next
// one replaces. It concerns a broker that carries the topic: if nothing else is published to the
// topic for that long, the broker may forget it. A keep of 0 leaves that to the broker.
func (tp *Topic) PublishFor(keep time.Duration, data []byte) *Message {
	h := tp.hub
	l := tp.log.Load()
	if l == nil {
		if l = h.find(tp.name); l != nil {
			tp.log.Store(l)
		}
	}
	if l != nil {
		l.mu.Lock()
		if l.subs > 0 {
			m, w := l.create(keep, data)
			l.mu.Unlock()
			w.wake()
			h.enforceLimit()
			return m
		}
		l.mu.Unlock()
	}

	// There is no subscriber, or was none just now.
	h.mu.Lock()
	l = h.open(tp.name)
	l.mu.Lock()
	before := l.bytes
	m, w := l.create(keep, data)
	h.updateIdle(l, before)
	l.mu.Unlock()
	h.trimIdle()
	h.mu.Unlock()
	tp.log.Store(l)
	w.wake()
	h.enforceLimit()
	return m
}

// Subscribe subscribes t. Any thread of t's loop may use the subscription, and one at a time may
// wait for it. It is closed by t's deferred calls, which a Request runs when its handler has
// returned (but see Options.Keep), or by Unsubscribe.
//
// Between the history and what is published from now on, no message is missing and none comes
// twice.
//
// A subscription that is refused, because of its Options or by the Engine, is closed from the
// beginning: its Err says why, and Receive returns that.
func (tp *Topic) Subscribe(t *loop.Thread, o Options) *Subscription {
	return tp.hub.subscribe(t, Selection{Name: tp.name, Group: o.Group}, o)
}

// Pattern stands for all topics of a hub whose names match it.
type Pattern struct {
	hub  *Hub
	text string
}

// Pattern returns a pattern: words, separated by dots, of which * stands for any one word, and >,
// as the last, for one or more. "room.*" matches "room.1", and "room.>" also "room.1.typing", but
// neither matches "room". The topics of the server match none.
//
// A publisher pays for the patterns that match its topic, and for no others. It learns them once
// for each topic, and again when a pattern gets its first subscriber or loses its last.
func (h *Hub) Pattern(text string) *Pattern {
	h.init()
	return &Pattern{h, text}
}

// Subscribe subscribes t to the messages of all matching topics from now on; Message.Topic is the
// topic of each. For the rest see Topic.Subscribe. The messages of one topic arrive in their order.
// There is no history: Options that ask for history are refused, as is a pattern with an empty
// word, or with a > that is not the last word.
//
// The subscription has one queue for all of the topics.
func (p *Pattern) Subscribe(t *loop.Thread, o Options) *Subscription {
	if err := checkPattern(p.text); err != nil {
		return newRefused(t, err)
	}
	return p.hub.subscribe(t, Selection{Name: hubName(p.text), Pattern: true, Group: o.Group}, o)
}

func (h *Hub) subscribe(t *loop.Thread, from Selection, o Options) *Subscription {
	if err := o.check(from, h.Limits); err != nil {
		return newRefused(t, err)
	}
	s := newSubscription(o)
	h.mu.Lock()
	var l *log
	if from.Pattern || from.Group != "" {
		var err error
		if l, err = h.openSelection(from, int(s.limit)); err != nil {
			h.mu.Unlock()
			return newRefused(t, err)
		}
	} else {
		l = h.open(from.Name)
	}
	l.mu.Lock()
	before := l.bytes
	l.join(s, t.Loop())
	h.updateIdle(l, before)
	free := h.free[t]
	if last := len(free) - 1; last >= 0 && !o.Keep {
		s.extra.slot, h.free[t] = free[last], free[:last]
		s.extra.slot.sub = s
	}
	h.mu.Unlock()
	if s.pending() && !l.loading() {
		l.seekHistory(s) // may search the log; other topics need not wait for that
	}
	l.mu.Unlock()
	if !o.Keep && s.extra.slot == nil {
		sl := &slot{thread: t, sub: s}
		s.extra.slot = sl
		t.Defer(func() { h.closeSlot(sl) })
	}
	return s
}

// slot is a deferred call of a thread, which closes the slot's subscription. If that was closed
// before, the next subscription gets the slot. So a thread that changes topics all its life has no
// more slots than it had subscriptions at a time.
type slot struct {
	thread *loop.Thread
	sub    *Subscription // nil: it is free
}

// closeSlot is the deferred call. It forgets the free slots of the thread as well, whose deferred
// calls may have been made already.
func (h *Hub) closeSlot(sl *slot) {
	if sl.sub != nil {
		sl.sub.Unsubscribe()
	}
	h.mu.Lock()
	delete(h.free, sl.thread)
	h.mu.Unlock()
}
