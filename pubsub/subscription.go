package pubsub

import (
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// ErrLagged is the error of a subscription with the policy Disconnect that has fallen behind.
var ErrLagged = errors.New("subscriber is too far behind")

// Policy says what a subscriber misses that is behind by more than its queue.
type Policy uint8

const (
	// DropOldest drops the messages that have waited longest: what is left is the news.
	DropOldest Policy = iota

	// DropNewest drops what is published while the queue is full. The queue is the subscriber's own, and each costs
	// whoever publishes a little time.
	DropNewest

	// Disconnect ends the subscription with ErrLagged.
	Disconnect
)

// Options of a subscription. The zero value is good: what is published from now on, 64 messages behind at most.
type Options struct {
	// Queue is how many messages the subscriber may be behind; 0 means DefaultQueue, and more than MaxQueue means that.
	// If these are more bytes than Limits.TopicBytes, or than Limits.Bytes leaves to the topic, it is as if the queue were
	// shorter.
	Queue  int
	Policy Policy

	// History has the last messages come first, at most so many, as far as the topic remembers them. 1 is the last value.
	History int

	// After, the ID of a message, has everything come first that was published after that one, and History is not looked
	// at. If the topic does not remember the message, it is all that it does remember.
	//
	// That is exact in the process that the message was received from, as long as it has subscribers. Where an Engine
	// carries the topic, processes may have messages of different origins in different orders, since each has its own at
	// once: another process may have some behind After that were received already, and some before it that were not, if
	// they were published within a moment, or within an outage. Who must not miss these asks for History, and leaves out
	// what he knows by its ID.
	After string
}

// Subscription is a place in a topic, and a loop.Source that is ready when there is a message, or an error. It belongs
// to the loop of the thread that subscribed; all methods are for its threads, one of them waiting at a time.
type Subscription struct {
	log    *log // nil when it has ended
	group  *group
	slot   *slot
	loop   *loop.Loop
	waiter *loop.Thread
	err    error
	index  int // in the group
	streak int // messages received without a wait
	limit  int // how many messages it may be behind
	policy Policy

	// Asked for; history counts from at, once it is known.
	history int
	after   string

	at     uint64 // number of the next message; changes under the log's lock
	joined uint64 // what it would have been first, without history

	// Under the log's lock.
	pending bool // history is still to be learnt
	late    bool // Deliver does not wait for it
	dropped int
	pick    int        // place among those with DropNewest
	own     []*Message // what waits, with DropNewest: the log is free to forget the oldest
	bytes   int        // of these
}

func newSubscription(t *loop.Thread, o Options) *Subscription {
	s := &Subscription{loop: t.Loop(), policy: o.Policy, limit: DefaultQueue, after: o.After}
	if o.Queue > 0 {
		s.limit = min(o.Queue, MaxQueue)
	}
	if o.After == "" {
		s.history = min(max(o.History, 0), MaxQueue)
	}
	return s
}

// Next returns the next message without waiting, nil if there is none at present, or never will be any: see Err.
func (s *Subscription) Next() *Message {
	s.loop.Check()
	l := s.log
	if l == nil || !s.pending && s.policy != DropNewest && s.at == l.next.Load() {
		return nil
	}
	l.mu.Lock()
	if !s.ready() {
		l.mu.Unlock()
		return nil
	}
	if s.policy == DropNewest {
		defer l.mu.Unlock()
		return s.take()
	}
	missed := s.missed()
	if missed > 0 && s.policy == Disconnect {
		l.mu.Unlock()
		s.end(ErrLagged)
		return nil
	}
	s.dropped += missed
	if s.at += uint64(missed); s.at == l.next.Load() { // the hub had no room for any
		l.mu.Unlock()
		return nil
	}
	m := l.at(s.at)
	s.at++
	l.mu.Unlock()
	return m
}

// History reports whether the message that Next or Receive has returned last was published before the subscription
// began: one of those that Options.History or Options.After have asked for. Clocks have no say in it.
func (s *Subscription) History() bool { return s.at <= s.joined }

// ready reports whether there is a message. The caller holds the log's lock.
func (s *Subscription) ready() bool {
	if s.pending {
		if s.log.loading() {
			return false
		}
		s.log.place(s)
	}
	if s.policy == DropNewest {
		return len(s.own) > 0
	}
	return s.at != s.log.next.Load()
}

// missed returns how many messages from s.at on are not to be had any more. The caller holds the log's lock.
func (s *Subscription) missed() int {
	oldest := max(s.log.first, s.log.next.Load()-uint64(s.limit))
	return int(max(oldest, s.at) - s.at)
}

// offer is the log's, for those with DropNewest.
func (s *Subscription) offer(m *Message) {
	if n := len(s.own); n == s.limit || n > 0 && s.bytes+m.size() > s.log.hub.Limits.TopicBytes {
		s.dropped++
		return
	}
	s.own = append(s.own, m)
	s.bytes += m.size()
	s.log.hold(m)
}

// cut drops the newest messages of a queue of the subscriber's own until no more than n bytes are left.
func (s *Subscription) cut(n int) {
	for last := len(s.own) - 1; last >= 0 && s.bytes > n; last-- {
		m := s.own[last]
		s.own[last], s.own = nil, s.own[:last]
		s.bytes -= m.size()
		s.dropped++
		s.log.release(m)
	}
	if len(s.own) == 0 {
		s.own = nil
	}
}

// take is the other end of offer. What is empty holds no memory.
func (s *Subscription) take() *Message {
	if len(s.own) == 0 {
		return nil
	}
	m := s.own[0]
	s.own[0] = nil
	s.bytes -= m.size()
	s.log.release(m)
	s.at++ // counts, as far as that is history
	if s.own = s.own[1:]; len(s.own) == 0 {
		s.own = nil
	}
	return m
}

// yieldAfter is how many messages in a row are received before other threads of the loop get their turn: whoever
// publishes elsewhere may do so faster than anybody can read.
const yieldAfter = 64

// Receive waits for the next message, at most d; negative: without limit. The error is Err's, or one of AwaitAny's.
func (s *Subscription) Receive(d time.Duration) (*Message, error) {
	for {
		if m := s.Next(); m != nil {
			if s.streak++; s.streak%yieldAfter == 0 {
				s.loop.Current().Yield()
			}
			return m, nil
		}
		if s.err != nil {
			return nil, s.err
		}
		s.streak = 0
		if _, err := s.loop.Current().AwaitAny(d, s); err != nil {
			return nil, err
		}
	}
}

// Dropped returns how many messages the subscriber has missed by its policy so far.
func (s *Subscription) Dropped() int {
	if s.log == nil {
		return s.dropped
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.policy == DropOldest {
		return s.dropped + s.missed()
	}
	return s.dropped
}

// Err returns why there will be no more messages: ErrLagged, which Next has found, or net.ErrClosed after Unsubscribe;
// nil while there may be.
func (s *Subscription) Err() error { return s.err }

// Unsubscribe ends the subscription. What has not been received is lost. A second call does nothing.
func (s *Subscription) Unsubscribe() {
	s.loop.Check()
	if s.log != nil {
		s.end(net.ErrClosed)
	}
}

func (s *Subscription) end(err error) {
	l, h := s.log, s.log.hub
	h.mu.Lock()
	l.mu.Lock()
	if s.policy == DropOldest {
		s.dropped += s.missed()
	}
	l.leave(s)
	h.settle(l, 0)
	l.mu.Unlock()
	h.trim()
	s.slot.sub = nil
	h.free[s.slot.thread] = append(h.free[s.slot.thread], s.slot)
	h.mu.Unlock()
	s.log, s.group, s.slot, s.own, s.err = nil, nil, nil, nil, err // whoever keeps s does not keep the topic
	if s.waiter != nil {
		loop.Nudge(s.waiter)
	}
}

// Watch implements loop.Source.
func (s *Subscription) Watch(t *loop.Thread) error {
	if s.waiter != nil {
		return loop.ErrAwaited
	}
	s.waiter = t
	return nil
}

// Ready implements loop.Source.
func (s *Subscription) Ready() bool {
	if s.log == nil {
		return true
	}
	if !s.pending && s.policy != DropNewest {
		return s.at != s.log.next.Load()
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.ready()
}

// Unwatch implements loop.Source.
func (s *Subscription) Unwatch(*loop.Thread) { s.waiter = nil }
