package pubsub

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// ErrLagged is the error of a subscription with the policy Disconnect that has fallen behind.
var ErrLagged = errors.New("subscriber is too far behind")

// Policy says what a subscriber misses if it is behind by more than its queue.
type Policy uint8

const (
	// DropOldest drops the messages that have waited longest, and keeps the news.
	DropOldest Policy = iota

	// DropNewest drops what is published while the queue is full. Each subscriber has a queue of
	// its own then, which costs the publisher a little time for each.
	DropNewest

	// Disconnect closes the subscription with ErrLagged.
	Disconnect
)

// Options of a subscription. The zero value stands for what is published from now on, with a queue
// of 64 messages.
type Options struct {
	// Queue is how many messages the subscriber may be behind. 0 means DefaultQueue, and a number
	// above MaxQueue means MaxQueue. If these are more bytes than Limits.TopicBytes, or more than
	// Limits.Bytes leaves to the topic, the queue is shorter.
	Queue  int
	Policy Policy

	// History is how many of the last messages come first, as far as the topic remembers them:
	// Forgotten tells how many are missing. 1 asks for the last value. A number above MaxQueue and
	// Limits.History is refused.
	History int

	// After is the ID of a message. Everything comes first that was published after that message,
	// and History is ignored. If the topic does not remember the message, all that it remembers
	// comes first.
	//
	// That is exact in the process from which the message was received, as long as the topic has
	// subscribers there. With an Engine, processes may have messages of different origins in
	// different orders, since each has its own at once. In another process, messages that were
	// published within a moment, or during an outage, may be behind After although they were
	// received already, or before it although they were not. A subscriber that must not miss these
	// asks for History, and skips those whose IDs it knows.
	After string

	// Group is the name of a queue group, if it is not empty: of all subscribers to the topic, or
	// the pattern, with the same Group, each message is for one. It waits for the first member that
	// calls Next or Receive, so what a member has not taken when it leaves is for the others. The
	// members have one queue, as long as the longest that one of them has asked for, and if it is
	// full it loses its oldest messages. There is no history. Options that ask for another policy, or
	// for history, are refused.
	//
	// Without an Engine the first member to subscribe begins the queue, and the last that leaves
	// ends it. With one, the members are those of all processes, and what has no room in the queue
	// waits at the broker.
	Group string

	// Keep says that the subscription outlives the thread's deferred calls: it is closed by
	// Unsubscribe only, which is the caller's to see to.
	Keep bool
}

// check returns why a subscription is refused.
func (o Options) check(from Selection, l Limits) error {
	history := o.History > 0 || o.After != ""
	switch most := max(MaxQueue, l.History); {
	case o.History > most:
		return fmt.Errorf("a history of %d messages was asked for, and at most %d can be had",
			o.History, most)
	case from.Group != "" && o.Policy != DropOldest:
		return errors.New("the members of a queue group have the policy DropOldest")
	case from != Selection{Name: from.Name} && history:
		return errors.New("a pattern or a queue group has no history")
	}
	return nil
}

// Subscription is a position in a topic, and a loop.Source that is ready if there is a message or
// an error. It belongs to the loop of the thread that has subscribed. The threads of that loop may
// call its methods, and one of them at a time may wait for it.
type Subscription struct {
	log    *log // nil when it is closed
	group  *group
	slot   *slot // nil: no deferred call closes it
	loop   *loop.Loop
	waiter *loop.Thread
	err    error

	before, behind *Subscription // in one of the group's lines

	at     uint64 // number of the next message; changes under the log's lock
	joined uint64 // what at was at first, without history

	// Under the log's lock.
	dropped int
	asked   *asked // for history, until there is a position
	*queue         // with DropNewest

	index   int32 // in the group
	streak  int32 // messages received in a row, without a wait
	limit   int32 // how many messages it may be behind
	missing int32 // of the history

	place   place
	policy  Policy
	pending bool // it has no position yet: history is still to be learnt
	late    bool // Offer does not wait for it
}

// asked is what Options have asked for. It counts from at, once that is known.
type asked struct {
	history int
	after   string
}

// queue is a subscriber's own. The log may forget these messages.
type queue struct {
	own   []*Message
	bytes int // in own
	pick  int // index among those that have one
}

func newSubscription(t *loop.Thread, o Options) *Subscription {
	s := &Subscription{loop: t.Loop(), place: nowhere, policy: o.Policy, limit: DefaultQueue}
	if o.Queue > 0 {
		s.limit = int32(min(o.Queue, MaxQueue))
	}
	switch {
	case o.After != "":
		s.asked = &asked{after: o.After}
	case o.History > 0:
		s.asked = &asked{history: o.History}
	}
	if s.pending = s.asked != nil; o.Policy == DropNewest {
		s.queue = new(queue)
	}
	return s
}

// refused returns a subscription that has ended.
func refused(t *loop.Thread, err error) *Subscription {
	return &Subscription{loop: t.Loop(), place: nowhere, err: err}
}

// Next returns the next message without waiting, or nil if there is none at present or never will
// be one: see Err.
func (s *Subscription) Next() *Message {
	s.loop.Check()
	l := s.log
	if l == nil || s.plain() && s.at == l.next.Load() {
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
	if l.shared() {
		defer l.mu.Unlock()
		return s.claim()
	}
	missed := s.missed()
	if missed > 0 && s.policy == Disconnect {
		l.mu.Unlock()
		s.end(ErrLagged)
		return nil
	}
	s.dropped += missed
	if s.at += uint64(missed); s.at == l.next.Load() { // the hub had no room for any of them
		l.mu.Unlock()
		return nil
	}
	m := l.at(s.at)
	s.at++
	l.mu.Unlock()
	return m
}

// plain reports whether its position alone tells whether there is a message.
func (s *Subscription) plain() bool {
	return !s.pending && s.policy != DropNewest && !s.log.shared()
}

// claim takes the next message of a queue group. The caller holds the log's lock.
func (s *Subscription) claim() *Message {
	l := s.log
	next := l.next.Load()
	if oldest := max(l.first, next-min(next, uint64(l.depth))); l.taken < oldest {
		s.dropped += int(oldest - l.taken)
		l.taken = oldest
	}
	if l.taken == next {
		return nil
	}
	m := l.at(l.taken)
	l.taken++
	return m
}

// History reports whether the message that Next or Receive has returned last was published before
// the subscription began, so that Options.History or Options.After have asked for it. It does not
// depend on clocks.
func (s *Subscription) History() bool { return s.at <= s.joined }

// Forgotten returns how many of the messages that Options.History has asked for the topic had, and
// has forgotten, because it remembers no more or for want of room. If Options.After is not
// remembered, it is how many may have come after that. Of an old topic that the hub has forgotten
// altogether nothing is known. It tells that once Next has returned a message, or Ready.
func (s *Subscription) Forgotten() int { return int(s.missing) }

// ready reports whether there is a message. The caller holds the log's lock.
func (s *Subscription) ready() bool {
	if s.pending {
		if s.log.loading() {
			return false
		}
		s.log.locate(s)
	}
	switch {
	case s.policy == DropNewest:
		return len(s.own) > 0
	case s.log.shared():
		return s.log.taken != s.log.next.Load()
	}
	return s.at != s.log.next.Load()
}

// missed returns how many messages, from s.at on, are lost. The caller holds the log's lock.
func (s *Subscription) missed() int {
	oldest := max(s.log.first, s.log.next.Load()-uint64(s.limit))
	return int(max(oldest, s.at) - s.at)
}

// offer appends m to the queue of a subscriber with DropNewest, if there is room. The log calls it.
func (s *Subscription) offer(m *Message) {
	if n := len(s.own); n == int(s.limit) || n > 0 && s.bytes+m.size() > s.log.hub.Limits.TopicBytes {
		s.dropped++
		return
	}
	s.own = append(s.own, m)
	s.bytes += m.size()
	s.log.hold(m)
}

// cut drops the newest messages of a queue until no more than n bytes are left.
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

// take takes the first message off a queue. An empty queue holds no memory.
func (s *Subscription) take() *Message {
	if len(s.own) == 0 {
		return nil
	}
	m := s.own[0]
	s.own[0] = nil
	s.bytes -= m.size()
	s.log.release(m)
	s.at++ // for History
	if s.own = s.own[1:]; len(s.own) == 0 {
		s.own = nil
	}
	return m
}

// yieldAfter is how many messages in a row are received before other threads of the loop get their
// turn: publishers elsewhere may be faster than any reader.
const yieldAfter = 64

// Receive waits for the next message, for d at most, or without limit if d is negative. The error
// is Err's, or one of AwaitAny's.
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

// Dropped returns how many messages the subscriber has missed so far, by its policy; in a queue
// group, how many were lost before those that it has received.
func (s *Subscription) Dropped() int {
	if s.log == nil {
		return s.dropped
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.policy == DropOldest && !s.log.shared() {
		return s.dropped + s.missed()
	}
	return s.dropped
}

// Err returns why there will be no more messages: ErrLagged, which Next has found, net.ErrClosed
// after Unsubscribe, or why the subscription was refused. It returns nil while there may be more.
func (s *Subscription) Err() error { return s.err }

// Unsubscribe closes the subscription. Messages that were not received are lost. A second call does
// nothing.
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
	if s.policy == DropOldest && !l.shared() {
		s.dropped += s.missed()
	}
	s.outOfLine()
	l.leave(s)
	h.settle(l, 0)
	l.mu.Unlock()
	h.trim()
	if s.slot != nil {
		s.slot.sub = nil
		h.free[s.slot.thread] = append(h.free[s.slot.thread], s.slot)
	}
	h.mu.Unlock()
	if l.shared() {
		l.wake() // it may have been told of messages, which others get now
	}
	s.log, s.group, s.slot, s.queue, s.err = nil, nil, nil, nil, err // s may live on
	if s.waiter != nil {
		loop.NotifyLocal(s.waiter)
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

// Ready implements loop.Source. Between a Ready that is true and one that is not, the thread is at
// work, and is not told of more.
func (s *Subscription) Ready() bool {
	if s.log == nil {
		return true
	}
	has := s.has()
	if !has && s.place >= nowhere && s.waiter != nil {
		s.group.add(s)
		has = s.has() // what has come before it was in line tells nobody
	}
	if has {
		s.outOfLine()
	}
	return has
}

func (s *Subscription) outOfLine() {
	if s.place < nowhere {
		s.group.remove(s)
	}
	s.place = nowhere
}

// has reports whether there is a message.
func (s *Subscription) has() bool {
	if s.plain() {
		return s.at != s.log.next.Load()
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.ready()
}

// Unwatch implements loop.Source.
func (s *Subscription) Unwatch(*loop.Thread) {
	s.waiter = nil
	if s.place == told && s.log != nil && s.log.shared() {
		s.log.wake() // it does not look: another member may
	}
	s.outOfLine()
}
