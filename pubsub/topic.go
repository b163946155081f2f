package pubsub

import (
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// Topic is a name that messages are published to, in one Hub. Its methods are for any goroutine, but for Subscribe.
type Topic struct {
	hub  *Hub
	name string
	log  atomic.Pointer[log] // where it was seen last; it may be gone
}

// Publish gives a message to all subscribers, and to the topic's history. It copies data. It never waits, whatever the
// subscribers do, and costs the same for any number of them, but for those with DropNewest.
//
// Where the hub holds more than Limits.Bytes, the topics that hold most forget some of it, which their subscribers learn as
// their Policy says.
//
// What one goroutine publishes, or one thread, arrives in that order at each subscriber.
func (tp *Topic) Publish(data []byte) *Message { return tp.PublishFor(0, data) }

// PublishFor is Publish for a message that means nothing after keep, such as a report that the next
// one replaces. It is for a broker, where one carries the topic: the broker may forget the topic
// when nothing else has been published to it for that long. 0 leaves that to the broker.
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
			m, groups := l.create(keep, data)
			l.mu.Unlock()
			groups.wake()
			h.relieve()
			return m
		}
		l.mu.Unlock()
	}

	// Nobody is subscribed, or was just now.
	h.mu.Lock()
	l = h.open(tp.name)
	l.mu.Lock()
	before := l.bytes
	m, groups := l.create(keep, data)
	h.settle(l, before)
	l.mu.Unlock()
	h.trim()
	h.mu.Unlock()
	tp.log.Store(l)
	groups.wake()
	h.relieve()
	return m
}

// Subscribe subscribes t, and all threads of its loop: whichever of them waits, one at a time. It ends with t's deferred
// calls, with a Request when its handler returns, or with Unsubscribe.
//
// Between history and what is published from then on nothing is missing and nothing comes twice.
func (tp *Topic) Subscribe(t *loop.Thread, o Options) *Subscription {
	h := tp.hub
	s := newSubscription(t, o)
	h.mu.Lock()
	l := h.open(tp.name)
	l.mu.Lock()
	before := l.bytes
	l.join(s)
	h.settle(l, before)
	free := h.free[t]
	if last := len(free) - 1; last >= 0 {
		s.slot, h.free[t] = free[last], free[:last]
		s.slot.sub = s
	}
	h.mu.Unlock()
	if s.pending && !l.loading() {
		l.place(s) // may have to look for a message: the other topics need not wait for that
	}
	l.mu.Unlock()
	if s.slot == nil {
		sl := &slot{thread: t, sub: s}
		s.slot = sl
		t.Defer(func() { h.vacate(sl) })
	}
	return s
}

// slot is a deferred call of a thread, which ends the subscription that is in it. One whose subscription has ended before
// is the next one's, so a thread that changes topics all its life has no more of them than it had subscriptions at once.
type slot struct {
	thread *loop.Thread
	sub    *Subscription // nil: it is free
}

// vacate is the deferred call. Free slots of the thread are not used again: their calls may be over, too.
func (h *Hub) vacate(sl *slot) {
	if sl.sub != nil {
		sl.sub.Unsubscribe()
	}
	h.mu.Lock()
	delete(h.free, sl.thread)
	h.mu.Unlock()
}
