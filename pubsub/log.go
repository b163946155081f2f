package pubsub

import (
	"container/list"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// log is a topic: its last messages, which all subscribers read at their own positions. So a
// message is stored once, however many subscribers there are, and a slow one holds nothing but a
// number.
type log struct {
	hub  *Hub
	name string

	// Under the hub's lock.
	idle *list.Element // nil while there are subscribers

	mu     sync.Mutex
	ring   []*Message // by number, modulo its length, a power of two
	first  uint64     // number of the oldest message
	bytes  int        // in the ring
	total  int        // bytes, and of those that only subscribers with DropNewest still have
	depth  int        // how many may be in the ring, see join and leave
	subs   int
	groups groups          // never changed, but replaced
	picky  []*Subscription // with DropNewest

	feed *Feed // nil: no engine carries the topic, or it has no subscribers

	// What Offer may append before it measures again, and the sum of the subscribers' positions when
	// it last did.
	room, roomBytes int
	read            uint64

	next atomic.Uint64 // number of the next message; changes under mu
}

// origin is the number of the first message. There is room below it for history that is learnt
// later.
const origin = 1 << 32

func newLog(h *Hub, name string) *log {
	l := &log{hub: h, name: name, first: origin, depth: h.Limits.History}
	l.next.Store(origin)
	return l
}

func (l *log) len() int { return int(l.next.Load() - l.first) }

// at returns the message with a number that is in the ring.
func (l *log) at(n uint64) *Message { return l.ring[n&uint64(len(l.ring)-1)] }

// create publishes a new message, which gets its position in the order of those that are published
// in this process.
func (l *log) create(keep time.Duration, data []byte) (*Message, groups) {
	id := make([]byte, 0, 40)
	id = append(append(id, l.hub.origin...), '-')
	id = strconv.AppendUint(id, l.hub.seq.Add(1), 36)
	m := &Message{ID: string(id), Time: time.Now(), Keep: keep, Data: append([]byte(nil), data...)}
	if e := l.hub.engine; e != nil {
		e.Publish(l.name, m)
	}
	return m, l.publish(m)
}

// publish appends a message. It returns the groups to wake, which the caller better does without
// the lock.
func (l *log) publish(m *Message) groups {
	for _, s := range l.picky {
		if !s.pending {
			s.offer(m)
		}
	}
	l.append(m)
	return l.groups
}

func (l *log) append(m *Message) {
	l.room--
	l.roomBytes -= m.size()
	l.bytes += m.size()
	l.shrink(l.depth - 1)
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

// resize makes room for n messages, and not for many more.
func (l *log) resize(n int) {
	ring := newRing(n)
	for i := l.first; i < l.next.Load(); i++ {
		ring[i&uint64(len(ring)-1)] = l.at(i)
	}
	l.ring = ring
}

func newRing(n int) []*Message { return make([]*Message, 1<<bits.Len(uint(max(n, 4)-1))) }

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

// hold counts one more holder of m in the topic: the ring, or a queue.
func (l *log) hold(m *Message) {
	if m.held++; m.held == 1 {
		l.total += m.size()
		l.hub.bytes.Add(int64(m.size()))
	}
}

// release undoes hold.
func (l *log) release(m *Message) {
	if m.held--; m.held == 0 {
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
		for _, s := range l.picky {
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
func (l *log) join(s *Subscription) {
	if e := l.hub.engine; l.subs == 0 && e != nil {
		l.feed = &Feed{log: l, loading: true, joined: l.next.Load()}
		e.Follow(l.name, l.feed)
	}
	l.subs++
	s.log, s.at, s.joined = l, l.next.Load(), l.next.Load()
	l.room = min(l.room, s.share())
	l.depth = max(l.depth, s.limit)
	s.pending = s.history > 0 || s.after != ""
	if s.policy == DropNewest {
		s.pick = len(l.picky)
		l.picky = append(l.picky, s)
	}
	i := slices.IndexFunc(l.groups, func(g *group) bool { return g.loop == s.loop })
	if i < 0 {
		i = len(l.groups)
		l.groups = append(slices.Clip(l.groups), newGroup(s.loop))
	}
	s.group = l.groups[i]
	s.group.join(s)
}

// loading reports whether history is still to be learnt.
func (l *log) loading() bool { return l.feed != nil && l.feed.loading }

// locate gives a subscription that has asked for history its position, once there is history.
func (l *log) locate(s *Subscription) {
	s.pending = false
	l.room = 0 // to be measured
	if s.after == "" {
		s.at = max(s.at-uint64(s.history), l.first)
	} else {
		n := l.next.Load()
		for n > l.first && l.at(n-1).ID != s.after {
			n--
		}
		s.at = n
	}
	if s.at == l.first { // what was published since it has joined, and is forgotten, it has missed
		s.at = min(s.at, s.joined)
	}
	s.limit = max(s.limit, int(l.next.Load()-s.at)) // history does not make it late
	l.depth = max(l.depth, s.limit)
	if s.policy == DropNewest {
		if lost := l.first - s.at; s.at < l.first {
			s.at, s.dropped = l.first, s.dropped+int(lost)
		}
		for n := s.at; n < l.next.Load(); n++ {
			s.offer(l.at(n))
		}
	}
}

// leave takes a subscription out.
func (l *log) leave(s *Subscription) {
	if s.policy == DropNewest {
		last := len(l.picky) - 1
		l.picky[s.pick] = l.picky[last]
		l.picky[s.pick].pick = s.pick
		l.picky[last] = nil
		l.picky = l.picky[:last]
		for _, m := range s.own {
			l.release(m)
		}
		s.own = nil
	}
	if s.group.leave(s); len(s.group.subs) == 0 {
		g := s.group
		l.groups = slices.DeleteFunc(slices.Clone(l.groups), func(o *group) bool { return o == g })
	}
	if l.subs--; l.subs == 0 {
		if e := l.hub.engine; e != nil {
			l.feed = nil
			e.Unfollow(l.name)
		}
		l.depth = l.hub.Limits.History
		l.shrink(l.depth)
		l.tighten()
	}
}

// group is the subscribers of a topic on one loop. A publisher rings for the loop, once in a burst,
// and the loop goes through the group.
type group struct {
	loop *loop.Loop
	ring func()      // look, made once
	rung atomic.Bool // look is posted

	subs []*Subscription // the loop's
}

func newGroup(l *loop.Loop) *group {
	g := &group{loop: l}
	g.ring = g.look
	return g
}

// look notifies all threads that wait for one of the subscriptions.
func (g *group) look() {
	g.rung.Store(false) // before they look
	for _, s := range g.subs {
		if s.waiter != nil {
			loop.NotifyLocal(s.waiter)
		}
	}
}

func (g *group) join(s *Subscription) {
	s.index = len(g.subs)
	g.subs = append(g.subs, s)
}

func (g *group) leave(s *Subscription) {
	last := len(g.subs) - 1
	g.subs[s.index] = g.subs[last]
	g.subs[s.index].index = s.index
	g.subs[last] = nil
	g.subs = g.subs[:last]
}

type groups []*group

// wake rings for the loops. A loop that has stopped has no threads to be told.
func (gs groups) wake() {
	for _, g := range gs {
		if g.rung.CompareAndSwap(false, true) {
			_ = g.loop.Post(g.ring)
		}
	}
}
