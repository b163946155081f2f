package pubsub

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// ErrLagged is the error of a subscription with the policy Disconnect that has fallen behind, or
// has missed messages that were lost on their way from another process.
var ErrLagged = errors.New("subscriber is too far behind")

// Policy says what a subscriber misses if it is behind by more than its queue.
type Policy uint8

const (
	// DropOldest drops the messages that have waited longest.
	DropOldest Policy = iota

	// DropNewest drops messages that are published while the queue is full. Each such subscriber has
	// a queue of its own, which costs the publisher a little time for each.
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
	group  *group // nil when it is closed
	waiter *loop.Thread
	extra  *extra // nil: none of it is set

	prev, next *Subscription // in one of the group's lines, which are rings

	at     uint64 // number of the next message; changes under the log's lock
	limit  int32  // how many messages it may be behind
	index  int32  // in the Feed
	passed uint32 // what at was, without its upper bits, when it last waited for a message
	streak uint8  // messages received in a row, without a wait
	place  place
	policy Policy
}

// extra is what many subscriptions do not have, such as those of thousands of idle connections.
type extra struct {
	slot *slot      // nil: no deferred call closes it
	loop *loop.Loop // when it is closed
	err  error

	// Under the log's lock.
	dropped int
	first   *Message // comes before all of the log: the list of a Presence
	past    *past    // nil: no history was asked for
	*queue           // with DropNewest
}

// past is the history that Options have asked for. It counts from at, once that is known.
type past struct {
	pending bool // there is no position yet: history is still to be learnt
	history int32
	missing int32
	after   *string // nil: none was given, or history is there
	joined  uint64  // what at was at first
}

// queue is a subscriber's own. The log may forget these messages.
type queue struct {
	messages   []*Message
	bytes      int           // in own
	end        uint64        // what at is when Remaining has given all, once group.end is set
	prev, next *Subscription // among those that have one
}

func newSubscription(o Options) *Subscription {
	s := &Subscription{place: nowhere, policy: o.Policy, limit: DefaultQueue}
	if o.Queue > 0 {
		s.limit = int32(min(o.Queue, MaxQueue))
	}
	if !o.Keep {
		s.extra = new(extra) // for the slot
	}
	if o.After != "" || o.History > 0 {
		s.needExtra().past = &past{pending: true, history: int32(o.History)}
		if after := o.After; after != "" {
			s.extra.past.after = &after
		}
	}
	if o.Policy == DropNewest {
		s.needExtra().queue = new(queue)
	}
	return s
}

// newRefused returns a subscription that has ended with err.
func newRefused(t *loop.Thread, err error) *Subscription {
	return &Subscription{place: nowhere, extra: &extra{loop: t.Loop(), err: err, past: new(past)}}
}

// needExtra returns s.extra, and makes it if there is none.
func (s *Subscription) needExtra() *extra {
	if s.extra == nil {
		s.extra = new(extra)
	}
	return s.extra
}

// loop returns the loop that it belongs to.
func (s *Subscription) loop() *loop.Loop {
	if s.group == nil {
		return s.extra.loop
	}
	return s.group.loop
}

// pending reports whether there is no position yet.
func (s *Subscription) pending() bool {
	return s.extra != nil && s.extra.past != nil && s.extra.past.pending
}

// Next returns the next message without waiting, or nil if there is none at present or never will
// be one: see Err.
func (s *Subscription) Next() *Message {
	s.loop().Layer().Check()
	if s.group == nil {
		return nil
	}
	l := s.group.log
	if s.byPosition() && s.at == l.next.Load() {
		return nil
	}
	l.mu.Lock()
	if !s.ready() {
		l.mu.Unlock()
		return nil
	}
	if s.hasFirst() {
		defer l.mu.Unlock()
		return s.takeFirst()
	}
	if s.policy == DropNewest {
		defer l.mu.Unlock()
		return s.dequeue()
	}
	if l.shared() {
		defer l.mu.Unlock()
		return s.takeShared()
	}
	missed := s.missed()
	if missed > 0 && s.policy == Disconnect {
		l.mu.Unlock()
		s.end(ErrLagged)
		return nil
	}
	if missed > 0 {
		s.needExtra().dropped += missed
	}
	if s.at += uint64(missed); s.at == l.next.Load() { // all of them were forgotten or lost
		l.mu.Unlock()
		return nil
	}
	m := l.at(s.at)
	s.at++
	l.mu.Unlock()
	return m
}

// byPosition reports whether s has a message if its position is not the log's end.
func (s *Subscription) byPosition() bool {
	return s.policy != DropNewest && !s.pending() && !s.group.log.shared() && !s.hasFirst()
}

// hasFirst reports whether the first message is unread.
func (s *Subscription) hasFirst() bool { return s.extra != nil && s.extra.first != nil }

// takeFirst takes the first message. The caller holds the log's lock.
func (s *Subscription) takeFirst() *Message {
	m := s.extra.first
	if s.extra.first = nil; *s.extra == (extra{}) {
		s.extra = nil
	}
	return m
}

// takeShared takes the next message of a queue group. The caller holds the log's lock.
func (s *Subscription) takeShared() *Message {
	l := s.group.log
	next := l.next.Load()
	of := l.selection
	if oldest := max(l.first, next-min(next, uint64(l.depth))); of.taken < oldest {
		s.needExtra().dropped += int(oldest - of.taken)
		of.taken = oldest
	}
	if of.taken == next {
		return nil
	}
	m := l.at(of.taken)
	of.taken++
	return m
}

// History reports whether the message that Next or Receive returned last is part of the history
// that Options.History or Options.After has asked for: it was published before the subscription
// began. That does not depend on clocks.
func (s *Subscription) History() bool {
	return s.extra != nil && s.extra.past != nil && s.at <= s.extra.past.joined
}

// Forgotten returns how many messages that Options.History asks for the topic has had and
// forgotten, because of its limits. If the topic does not remember Options.After, it is how many
// messages may have followed that one. With an Engine there may be more: the hub then counts at
// least one. If the hub has forgotten the whole topic, the result is 0. It is valid once Next has
// returned a message, or Ready has returned true.
func (s *Subscription) Forgotten() int {
	if s.extra == nil || s.extra.past == nil {
		return 0
	}
	return int(s.extra.past.missing)
}

// ready reports whether there is a message. The caller holds the log's lock.
func (s *Subscription) ready() bool {
	l := s.group.log
	if s.pending() {
		if l.loading() {
			return false
		}
		l.seekHistory(s)
	}
	switch {
	case s.hasFirst():
		return true
	case s.policy == DropNewest:
		return len(s.extra.messages) > 0
	case l.shared():
		return l.selection.taken != l.next.Load()
	}
	return s.at != l.next.Load()
}

// missed returns how many messages, from s.at on, are lost: the log has forgotten them, or never
// had them. The caller holds the log's lock.
func (s *Subscription) missed() int {
	l := s.group.log
	next := l.next.Load()
	at := max(s.at, l.first, next-uint64(s.limit))
	for at < next && l.at(at) == nil {
		at++
	}
	return int(at - s.at)
}

// enqueue appends m to the queue of a subscriber with DropNewest, if there is room.
func (s *Subscription) enqueue(m *Message) {
	x, l := s.extra, s.group.log
	if n := len(x.messages); n == int(s.limit) || n > 0 && x.bytes+m.size() > l.hub.Limits.TopicBytes {
		x.dropped++
		return
	}
	x.messages = append(x.messages, m)
	x.bytes += m.size()
	l.hold(m)
}

// trimQueue drops the newest messages of a queue until no more than n bytes are left.
func (s *Subscription) trimQueue(n int) {
	x := s.extra
	for last := len(x.messages) - 1; last >= 0 && x.bytes > n; last-- {
		m := x.messages[last]
		x.messages[last], x.messages = nil, x.messages[:last]
		x.bytes -= m.size()
		x.dropped++
		s.group.log.release(m)
	}
	if len(x.messages) == 0 {
		x.messages = nil
	}
}

// dequeue takes the first message off a queue. An empty queue holds no memory.
func (s *Subscription) dequeue() *Message {
	x := s.extra
	if len(x.messages) == 0 {
		return nil
	}
	m := x.messages[0]
	x.messages[0] = nil
	x.bytes -= m.size()
	s.group.log.release(m)
	s.at++ // for History
	if x.messages = x.messages[1:]; len(x.messages) == 0 {
		x.messages = nil
	}
	return m
}

// yieldAfter is how many messages in a row are received before other threads of the loop get their
// turn: publishers elsewhere may be faster than any reader.
const yieldAfter = 64

// Receive waits for the next message, for d at most; negative: without limit. The error
// is Err's, or one of AwaitAny's.
func (s *Subscription) Receive(d time.Duration) (*Message, error) {
	for {
		if m := s.Next(); m != nil {
			if s.streak++; s.streak%yieldAfter == 0 {
				s.loop().Layer().Current().Yield()
			}
			return m, nil
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
		s.streak = 0
		if _, err := s.loop().Layer().Current().AwaitAny(d, s); err != nil {
			return nil, err
		}
	}
}

// Dropped returns how many messages the subscriber has missed so far, by its policy, or because
// they were lost on their way from another process and the Engine has noticed that. In a queue
// group, it is how many messages were lost before those that the subscriber has received.
func (s *Subscription) Dropped() (n int) {
	g := s.group
	if g != nil {
		g.log.mu.Lock()
		defer g.log.mu.Unlock()
	}
	if s.extra != nil {
		n = s.extra.dropped
	}
	if g != nil && s.policy == DropOldest && !g.log.shared() {
		n += s.missed()
	}
	return n
}

// Err returns why there will be no more messages: ErrLagged after Next has found that,
// net.ErrClosed after Unsubscribe, or why the subscription was refused. It returns nil while more
// may come.
func (s *Subscription) Err() error {
	if s.extra == nil {
		return nil
	}
	return s.extra.err
}

// Group returns Options.Group of a subscription that has not ended, else "".
func (s *Subscription) Group() string {
	if s.group == nil || !s.group.log.shared() {
		return ""
	}
	return s.group.log.selection.Group
}

// Unsubscribe closes the subscription. Messages that were not received are lost. A second call does
// nothing.
func (s *Subscription) Unsubscribe() {
	s.loop().Layer().Check()
	if s.group != nil {
		s.end(net.ErrClosed)
	}
}

func (s *Subscription) end(err error) {
	l, x := s.group.log, s.needExtra()
	h := l.hub
	h.mu.Lock()
	l.mu.Lock()
	if s.policy == DropOldest && !l.shared() {
		x.dropped += s.missed()
	}
	s.leaveLine()
	l.leave(s)
	h.updateIdle(l, 0)
	l.mu.Unlock()
	h.trimIdle()
	if sl := x.slot; sl != nil {
		sl.sub = nil
		h.free[sl.thread] = append(h.free[sl.thread], sl)
	}
	h.mu.Unlock()
	if l.shared() {
		l.wake() // it may have been notified of messages, which others get now
	}
	x.loop, x.err = s.group.loop, err
	s.group, x.slot, x.queue = nil, nil, nil // s may live on
	if s.waiter != nil {
		s.waiter.Layer().NotifyLocal()
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

// Ready implements loop.Source. After a Ready that returns true the thread is not notified of more
// messages, until a Ready returns false.
func (s *Subscription) Ready() bool {
	if s.group == nil {
		return true
	}
	has := s.hasMessage()
	if !has && s.place >= nowhere && s.waiter != nil {
		s.group.add(s)
		if has = s.hasMessage(); !has { // a message that came before add notifies nobody
			s.group.notePassed(s)
		}
	}
	if has {
		s.leaveLine()
	}
	return has
}

func (s *Subscription) leaveLine() {
	if s.place < nowhere {
		s.group.remove(s)
	}
	s.place = nowhere
}

// hasMessage reports whether there is a message.
func (s *Subscription) hasMessage() bool {
	l := s.group.log
	if s.byPosition() {
		return s.at != l.next.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.ready()
}

// Unwatch implements loop.Source.
func (s *Subscription) Unwatch(*loop.Thread) {
	s.waiter = nil
	if s.place == notified && s.group != nil && s.group.log.shared() {
		s.group.log.wake() // the thread does not call Ready, and another member may
	}
	s.leaveLine()
}
