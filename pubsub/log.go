package pubsub

import (
	"container/list"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// log is a topic, or a selection: its last messages, which all subscribers read at their own
// positions. So a message is stored once, however many subscribers there are, and a slow one holds
// nothing but a number.
type log struct {
	Topic               // the one that programs have; of a selection, hub and name count
	selection *selected // nil: this is a topic

	// Under the hub's lock.
	idle *list.Element // nil while there are subscribers

	mu         sync.Mutex
	ring       []*Message // by number, modulo its length, a power of two; nil: it was lost, see lose
	first      uint64     // number of the oldest message
	born       uint64     // number of the first message that was ever known
	gap        uint64     // number of the first message behind those that were lost last
	bytes      int        // in the ring
	total      int        // bytes, and of those that only subscribers with DropNewest still have
	depth      int32      // how many may be in the ring, see join and leave
	subs       int32
	groups     groups        // never changed, but replaced
	dropNewest *Subscription // the first of those with DropNewest

	feed *Feed // nil: no engine carries the topic, or it has no subscribers

	count uint64 // of messages that this process has published to an engine, without those with a Keep

	recalled bool   // history was asked for
	bare     uint64 // of the messages before this number, nothing that Shared has made is kept

	others *others // nil: when it was last asked, there had never been a selection

	next atomic.Uint64 // number of the next message; changes under mu
}

// origin is the number of the first message. There is room below it for history that is learnt
// later.
const origin = 1 << 32

func newLog(h *Hub, name string) *log {
	l := &log{Topic: Topic{hub: h, name: name}, first: origin, born: origin, depth: h.history()}
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
	id := make([]byte, 0, 40)
	id = append(append(id, l.hub.origin...), '-')
	id = strconv.AppendUint(id, l.hub.seq.Add(1), 36)
	name, _ := title(l.name)
	m := &Message{ID: string(id), Topic: name, Time: time.Now(), Keep: keep,
		Data: append([]byte(nil), data...)}
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

// woken is what a publisher wakes up when it holds no lock.
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

// wake tells those that wait.
func (l *log) wake() {
	l.mu.Lock()
	gs := l.groups
	l.mu.Unlock()
	if l.shared() {
		gs.wakeSome(l.unread(), l.hub.selections.shift.Add(1))
	} else {
		gs.wake()
	}
}

// publish appends a message. The caller wakes the groups, which is better done without the lock.
func (l *log) publish(m *Message) {
	for s := l.dropNewest; s != nil; s = s.extra.queue.next {
		if !s.pending() {
			s.offer(m)
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

// lose gives numbers to n messages that nobody will have. Subscribers find that they have missed
// these, as they do with messages that the log has forgotten.
func (l *log) lose(n int) {
	if l.shared() { // its engine knows what its members have received by their numbers
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
	l.shrink(0) // whoever has not read what was before is behind by more than a queue
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

// shrink forgets the oldest messages until n are left, and no more bytes than there may be.
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
		m.held++
	}
	if !l.isTopic() || m.held == 1 { // in this order: held is the topic's
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
		m.held--
	}
	if !l.isTopic() || m.held == 0 {
		l.total -= m.size()
		l.hub.bytes.Add(-int64(m.size()))
	}
}

// cut forgets messages until no more than n bytes are left: first the oldest ones of the ring, and
// then the newest ones in the queues of subscribers with DropNewest.
func (l *log) cut(n int) {
	for l.len() > 0 && l.total > n {
		l.forgetOldest()
	}
	l.tighten()
	for keep := n; l.total > n; keep /= 2 {
		for s := l.dropNewest; s != nil; s = s.extra.queue.next {
			s.cut(keep)
		}
	}
}

// tighten gives back the room in the ring that is not needed.
func (l *log) tighten() {
	if n := l.len(); len(l.ring) > 2*max(n, 4) {
		l.resize(n)
	}
}

// join adds a subscription. If it is pending, locate is still to be called. The caller holds the
// hub's lock as well.
func (l *log) join(s *Subscription, on *loop.Loop) {
	if e := l.hub.engine; l.subs == 0 && e != nil && l.isTopic() {
		l.feed = &Feed{log: l, loading: true, joined: l.next.Load(), depth: max(l.hub.Limits.History, 1)}
		if s.pending() {
			l.feed.depth = max(l.feed.depth, s.extra.past.history)
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

// pass notes that all subscriptions of a group have passed the messages before a number. What
// Shared has made of those that all have passed is dropped: nobody else is going to ask for it,
// unless history is asked for.
func (l *log) pass(g *group, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.passed = number
	if l.recalled || !l.isTopic() || len(l.selected()) > 0 {
		return
	}
	for _, o := range l.groups {
		number = min(number, o.passed)
	}
	for n := max(l.bare, l.first); n < number; n++ {
		if m := l.at(n); m != nil {
			m.forms.Store(nil)
		}
	}
	l.bare = max(l.bare, number)
}

// loading reports whether history is still to be learnt.
func (l *log) loading() bool { return l.feed != nil && l.feed.loading }

// locate gives a subscription that has asked for history its position, once there is history.
func (l *log) locate(s *Subscription) {
	p := s.extra.past
	after := p.after
	l.recalled = true
	n, first := l.next.Load(), l.first // history is what comes after the last gap in it
	if after == "" {
		from := max(s.at-uint64(p.history), l.born)
		for n = s.at; n > max(from, first) && l.at(n-1) != nil; {
			n--
		}
		s.at = max(n, first)
		p.missing = int(s.at - from)
	} else {
		for ; n > first; n-- {
			if m := l.at(n - 1); m != nil && m.ID == after {
				break
			} else if m == nil && n <= p.joined {
				first = n
				break
			}
		}
		if s.at = n; n == first {
			p.missing = int(n - l.born)
		}
	}
	p.pending, p.after = false, ""
	if s.at == l.first { // what was published since it has joined, and is forgotten, it has missed
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
				s.offer(m)
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
		for _, m := range q.own {
			l.release(m)
		}
		q.own = nil
	}
	if l.feed != nil {
		l.feed.leave(s)
	}
	if s.passed == s.group.number {
		s.group.calm--
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
		l.tighten()
	}
}

// unfollow tells the engine that nobody is subscribed any more.
func (l *log) unfollow(e Engine) {
	if l.isTopic() {
		e.Unfollow(l.name)
	} else {
		e.(Selector).Unselect(l.selection.Selection)
	}
}
