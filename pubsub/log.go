package pubsub

import (
	"container/list"
	"math"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// log has the last messages of a topic, or of a selection, which all subscribers read at their own
// positions. So a message is stored once, however many subscribers there are, and a slow subscriber
// costs no more than its position.
type log struct {
	Topic               // the one that programs have; of a selection, hub and name count
	selection *selected // nil: this is a topic

	// Under the hub's lock.
	idle *list.Element // nil while there are subscribers

	mu         sync.Mutex
	ring       []*Message // by number, modulo its length, a power of two; nil: it was lost, see lose
	first      uint64     // number of the oldest message
	firstKnown uint64     // number of the first message that was ever known
	gap        uint64     // number of the first message after those that were lost last
	bytes      int        // in the ring
	total      int        // bytes, and of those that only subscribers with DropNewest still have
	depth      int32      // how many may be in the ring, see join and leave
	subs       int32
	groups     groups        // never changed, but replaced
	dropNewest *Subscription // the first of those with DropNewest

	feed *Feed // nil: no engine carries the topic, or it has no subscribers

	count uint64 // of messages that this process has published to an engine, without those with a Keep

	historyAsked bool   // history was asked for
	formsDropped uint64 // of the messages before this number, nothing that Shared has made is kept

	matches *matches // nil: when it was last asked, there had never been a selection

	next atomic.Uint64 // number of the next message; changes under mu
}

// origin is the number of the first message. There is room below it for history that is learnt
// later.
const origin = 1 << 32

func newLog(h *Hub, name string) *log {
	l := &log{Topic: Topic{hub: h, name: name}, first: origin, firstKnown: origin, depth: h.history()}
	l.Topic.log.Store(l)
	l.next.Store(origin)
	return l
}

// isTopic reports whether it is not a selection.
func (l *log) isTopic() bool { return l.selection == nil }

// shared reports whether each message is for one of the subscribers, a queue group.
func (l *log) shared() bool { return l.selection != nil && l.selection.Group != "" }

// unread returns how many messages of a shared log nobody has taken.
func (l *log) unread() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.next.Load() - l.selection.taken)
}

func (l *log) len() int { return int(l.next.Load() - l.first) }

// at returns the message with a number that is in the ring.
func (l *log) at(n uint64) *Message { return l.ring[n&uint64(len(l.ring)-1)] }

// create publishes a new message, which gets its position in the order of those that are published
// in this process. It returns what is to be woken.
func (l *log) create(keep time.Duration, data []byte) (*Message, woken) {
	m := l.hub.message(l.name, append([]byte(nil), data...))
	m.Keep = keep
	if e := l.hub.engine; e != nil {
		if keep == 0 {
			l.count++
			m.Count = l.count
		}
		e.Publish(l.name, m)
	}
	others := l.selected()
	for _, o := range others {
		o.mu.Lock()
		if o.subs > 0 { // else it is forgotten by now
			o.publish(m)
		}
		o.mu.Unlock()
	}
	l.publish(m)
	return m, woken{l.groups, others}
}

// message returns a new message of this process, which has data.
func (h *Hub) message(topic string, data []byte) *Message {
	id := make([]byte, 0, 40)
	id = append(append(id, h.origin...), '-')
	id = strconv.AppendUint(id, h.seq.Add(1), 36)
	name, _ := programName(topic)
	return &Message{ID: string(id), Topic: name, Time: time.Now(), Data: data}
}

// woken has the groups and logs that a publisher wakes when it holds no lock.
type woken struct {
	groups groups
	others []*log
}

func (w woken) wake() {
	w.groups.wake()
	for _, l := range w.others {
		l.wake()
	}
}

// wake notifies the subscriptions that wait.
func (l *log) wake() {
	l.mu.Lock()
	gs := l.groups
	l.mu.Unlock()
	if l.shared() {
		gs.wakeSome(l.unread(), l.hub.selections.rotation.Add(1))
	} else {
		gs.wake()
	}
}

// publish appends a message. The caller wakes the groups, which is better done without the lock.
func (l *log) publish(m *Message) {
	for s := l.dropNewest; s != nil; s = s.extra.queue.next {
		if !s.pending() {
			s.enqueue(m)
		}
	}
	l.append(m)
}

func (l *log) append(m *Message) {
	l.bytes += m.size()
	l.shrink(int(l.depth) - 1)
	if l.depth == 0 {
		l.bytes -= m.size()
		return
	}
	l.hold(m)
	if n := l.len(); n == len(l.ring) {
		l.resize(n + 1)
	}
	next := l.next.Load()
	l.ring[next&uint64(len(l.ring)-1)] = m
	l.next.Store(next + 1)
}

// appendLost gives numbers to n messages that were lost. Subscribers find that they have missed
// them, as they do with messages that the log has forgotten.
func (l *log) appendLost(n int) {
	if l.shared() { // the engine goes by the numbers to learn what members have received
		return
	}
	for s := l.dropNewest; s != nil; s = s.extra.queue.next {
		if !s.pending() {
			s.extra.dropped += n
		}
	}
	if l.gap = l.next.Load() + uint64(n); n < int(l.depth) {
		for range n {
			l.append(nil)
		}
		return
	}
	l.shrink(0) // a subscriber with earlier unread messages is behind by more than its queue
	l.first += uint64(n)
	l.next.Store(l.first)
}

// resize makes room for n messages, and not for many more.
func (l *log) resize(n int) {
	ring := newRing(n)
	for i := l.first; i < l.next.Load(); i++ {
		ring[i&uint64(len(ring)-1)] = l.at(i)
	}
	l.ring = ring
}

func newRing(n int) []*Message { return make([]*Message, 1<<bits.Len(uint(max(n, 1)-1))) }

// shrink forgets the oldest messages until n are left, and TopicBytes.
func (l *log) shrink(n int) {
	for held := l.len(); held > 0 && (held > n || l.bytes > l.hub.Limits.TopicBytes); held-- {
		l.forgetOldest()
	}
}

func (l *log) forgetOldest() {
	i := l.first & uint64(len(l.ring)-1)
	m := l.ring[i]
	l.ring[i] = nil
	l.first++
	l.bytes -= m.size()
	l.release(m)
}

// hold counts one more holder of m in the topic: the ring, or a queue. The message counts once for
// its topic, and for each holder in a selection, which has another lock.
func (l *log) hold(m *Message) {
	if m == nil {
		return
	}
	if l.isTopic() {
		m.holders++
	}
	if !l.isTopic() || m.holders == 1 { // in this order: held is the topic's
		l.total += m.size()
		l.hub.bytes.Add(int64(m.size()))
	}
}

// release undoes hold.
func (l *log) release(m *Message) {
	if m == nil {
		return
	}
	if l.isTopic() {
		m.holders--
	}
	if !l.isTopic() || m.holders == 0 {
		l.total -= m.size()
		l.hub.bytes.Add(-int64(m.size()))
	}
}

// trimTo forgets messages until n bytes are left: first the oldest ones of the ring, and then the
// newest ones in the queues of subscribers with DropNewest.
func (l *log) trimTo(n int) {
	for l.len() > 0 && l.total > n {
		l.forgetOldest()
	}
	l.shrinkRing()
	for keep := n; l.total > n; keep /= 2 {
		for s := l.dropNewest; s != nil; s = s.extra.queue.next {
			s.trimQueue(keep)
		}
	}
}

// shrinkRing makes the ring smaller if most of it is not needed.
func (l *log) shrinkRing() {
	if n := l.len(); len(l.ring) > 2*max(n, 4) {
		l.resize(n)
	}
}

// join adds a subscription. If it is pending, the caller calls seekHistory after that. The caller
// holds the hub's lock as well.
func (l *log) join(s *Subscription, on *loop.Loop) {
	if e := l.hub.engine; l.subs == 0 && e != nil && l.isTopic() {
		l.feed = &Feed{log: l, loading: true, joined: l.next.Load(), depth: max(l.hub.Limits.History, 1)}
		if s.pending() {
			l.feed.depth = max(l.feed.depth, int(s.extra.past.history))
		}
		e.Follow(l.name, l.feed)
	}
	l.subs++
	if s.at = l.next.Load(); s.pending() {
		s.extra.past.joined = s.at
	}
	l.depth = max(l.depth, s.limit)
	if s.policy == DropNewest {
		if s.extra.queue.next = l.dropNewest; l.dropNewest != nil {
			l.dropNewest.extra.queue.prev = s
		}
		l.dropNewest = s
	}
	if l.feed != nil {
		l.feed.join(s)
	}
	l.groups, s.group = l.groups.with(l, on)
	s.group.members++
	s.passed = uint32(s.at) - 1 // not yet
}

// groupPassed notes that all subscriptions of a group have read the messages before a number. It
// drops what Shared has made of messages that all groups have read, which no subscriber is going to
// ask for, unless history is asked for.
func (l *log) groupPassed(g *group, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.passed = number
	if l.historyAsked || !l.isTopic() || len(l.selected()) > 0 {
		return
	}
	for _, o := range l.groups {
		number = min(number, o.passed)
	}
	for n := max(l.formsDropped, l.first); n < number; n++ {
		if m := l.at(n); m != nil {
			m.forms.Store(nil)
		}
	}
	l.formsDropped = max(l.formsDropped, number)
}

// loading reports whether the engine has not given the history yet.
func (l *log) loading() bool { return l.feed != nil && l.feed.loading }

// seekHistory sets the position of a subscription that has asked for history, once there is
// history.
func (l *log) seekHistory(s *Subscription) {
	p := s.extra.past
	l.historyAsked = true
	n, first := l.next.Load(), l.first // history is what comes after the last gap in it
	if p.after == nil {
		from := max(s.at-uint64(p.history), l.firstKnown)
		for n = s.at; n > max(from, first) && l.at(n-1) != nil; {
			n--
		}
		s.at = max(n, first)
		p.missing = int32(s.at - from)
	} else {
		for ; n > first; n-- {
			if m := l.at(n - 1); m != nil && m.ID == *p.after {
				break
			} else if m == nil && n <= p.joined {
				first = n
				break
			}
		}
		if s.at = n; n == first {
			p.missing = int32(min(n-l.firstKnown, math.MaxInt32))
		}
	}
	p.pending, p.after = false, nil
	if s.at == l.first { // it has missed messages since it joined that the log has forgotten
		s.at = min(s.at, p.joined)
	}
	s.limit = max(s.limit, int32(l.next.Load()-s.at)) // history does not make it late
	l.depth = max(l.depth, s.limit)
	if s.policy == DropNewest {
		if lost := l.first - s.at; s.at < l.first {
			s.at, s.extra.dropped = l.first, s.extra.dropped+int(lost)
		}
		for n := s.at; n < l.next.Load(); n++ {
			if m := l.at(n); m != nil {
				s.enqueue(m)
			} else {
				s.extra.dropped++
			}
		}
	}
}

// leave takes a subscription out.
func (l *log) leave(s *Subscription) {
	if s.policy == DropNewest {
		q := s.extra.queue
		if q.prev == nil {
			l.dropNewest = q.next
		} else {
			q.prev.extra.queue.next = q.next
		}
		if q.next != nil {
			q.next.extra.queue.prev = q.prev
		}
		for _, m := range q.messages {
			l.release(m)
		}
		q.messages = nil
	}
	if l.feed != nil {
		l.feed.leave(s)
	}
	if s.passed == s.group.caughtUpTo {
		s.group.caughtUp--
	}
	if s.group.members--; s.group.members == 0 {
		l.groups = l.groups.without(s.group)
	}
	if l.subs--; l.subs == 0 {
		l.depth = l.hub.history()
		if !l.isTopic() {
			l.depth = 0
			l.hub.selections.remove(l)
		}
		if l.feed != nil {
			l.feed = nil
			l.unfollow(l.hub.engine)
		}
		l.shrink(int(l.depth))
		l.shrinkRing()
	}
}

// unfollow tells the engine that the log has no subscribers any more.
func (l *log) unfollow(e Engine) {
	if l.isTopic() {
		e.Unfollow(l.name)
	} else {
		e.(Selector).Unselect(l.selection.Selection)
	}
}
