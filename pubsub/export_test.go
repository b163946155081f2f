package pubsub

import (
	"sync/atomic"
	"time"
)

// Topics returns how many topics the hub remembers, and the bytes of those without subscribers.
func Topics(h *Hub) (n, idleBytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	bytes := 0
	for e := h.idle.Front(); e != nil; e = e.Next() {
		bytes += e.Value.(*log).bytes
	}
	if bytes != h.idleBytes {
		panic("the idle bytes are counted wrongly")
	}
	return len(h.logs), h.idleBytes
}

// Subscribers returns how many a topic has, and how many messages it holds, with room for how many.
func Subscribers(h *Hub, topic string) (n, held, room int) {
	l := h.find(topic)
	if l == nil {
		return 0, 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.subs), l.len(), len(l.ring)
}

// Threads returns how many the hub remembers.
func Threads(h *Hub) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.free)
}

// CountPosts has n count what is posted to the loops of a topic's subscribers from now on.
func CountPosts(h *Hub, topic string, n *atomic.Int64) {
	l := h.find(topic)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		g.post = func() { n.Add(1); g.notifyWaiting() }
	}
}

// Bytes returns how many bytes of messages the hub's topics hold.
func Bytes(h *Hub) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for _, l := range h.all() {
		l.mu.Lock()
		if !l.isTopic() { // each holder counts
			total := 0
			for n := l.first; n < l.next.Load(); n++ {
				total += l.at(n).size()
			}
			for s := l.dropNewest; s != nil; s = s.extra.queue.next {
				for _, m := range s.extra.messages {
					total += m.size()
				}
			}
			if total != l.total {
				panic("the bytes of a selection are counted wrongly")
			}
			sum += total
			l.mu.Unlock()
			continue
		}
		held := make(map[*Message]bool)
		for n := l.first; n < l.next.Load(); n++ {
			held[l.at(n)] = true
		}
		for s := l.dropNewest; s != nil; s = s.extra.queue.next {
			for _, m := range s.extra.messages {
				held[m] = true
			}
		}
		total := 0
		for m := range held {
			total += m.size()
		}
		if total != l.total {
			panic("the bytes of a topic are counted wrongly")
		}
		sum += total
		l.mu.Unlock()
	}
	if int64(sum) != h.bytes.Load() {
		panic("the hub's bytes are counted wrongly")
	}
	return sum
}

// Hold holds up whatever looks at a topic, until release is called.
func Hold(h *Hub, topic string) (release func()) {
	l := h.find(topic)
	l.mu.Lock()
	return l.mu.Unlock
}

// Selections returns how many selections have subscribers, and whether patterns are left in the
// tree.
func Selections(h *Hub) (n int, patterns bool) {
	ss := &h.selections
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return len(ss.logs), len(ss.root.children)+len(ss.root.tails) > 0
}

// PresenceSoon is how long news of a Presence waits for others, at least.
const PresenceSoon = presenceSoon

// Leases are short in these tests. A process without a processor may count as dead meanwhile.
func init() { presenceLease, presenceAlive = 1500*time.Millisecond, 300*time.Millisecond }

// Lease is for how long a process counts as alive.
func Lease() time.Duration { return presenceLease }

// ParseNote reads what a process tells others of its members, and encodes it again.
func ParseNote(data []byte) ([]byte, error) {
	n, err := parseNote(data)
	return n.encode(), err
}

// Rosters returns of how many topics the hub has members.
func Rosters(h *Hub) int {
	h.presence.mu.Lock()
	defer h.presence.mu.Unlock()
	return len(h.presence.rosters)
}

// Later lets so much time pass for a feed, since it last had something late.
func Later(f *Feed, d time.Duration) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.lastOffer = f.lastOffer.Add(-d)
}
