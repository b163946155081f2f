package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// spareFor is for how long a slot is spare after a client network has needed it that had none. It
// is a variable only for the tests.
var spareFor = time.Minute

// spareSlots counts the slots that each client network, as in fair.Queue, has at an address by way
// of groups with MaxConns, and tells which free slots are spare. The pool's lock guards it.
//
// A slot that becomes free is first for the client networks that have none. While such client
// networks come, beside others, the last free slot is spare, which is for such a client network
// only: otherwise a newcomer waits until the crowd of another client gives a slot back, and if its
// requests began together, they end together, all of their time later. Where one is not enough, two
// are. Sites that always have slots, such as a few proxies in front, share all of them.
type spareSlots struct {
	slots slotCounts // of each client network that has any
	last  netip.Addr // the client network that got the last slot
	timed bool       // a timer is set that ends what follows

	// By loop.Now, until when the last free slot is spare, and, no longer, another.
	until [2]time.Duration
}

// countSlot notes that the lease has a slot at b.
func (l *Lease) countSlot(b *backend, now time.Duration) {
	if l.group.MaxConns == 0 {
		return
	}
	s, clientNet := &b.spare, networks.ClientNet(l.client)
	has := s.slots.of(clientNet)
	if has == 0 && clientNet != s.last && s.slots.few != nil { // nil: it is the first one of all
		s.until[0] = now + spareFor
	}
	s.last = clientNet
	if s.slots.set(clientNet, has+1); has == 0 {
		b.waiting.moveClientNet(clientNet, false)
	}
}

// uncountSlot notes that the lease gives its slot at b back.
func (l *Lease) uncountSlot(b *backend) {
	if l.group.MaxConns == 0 {
		return
	}
	s, clientNet := &b.spare, networks.ClientNet(l.client)
	has := s.slots.of(clientNet)
	if s.slots.set(clientNet, max(has-1, 0)); has <= 1 {
		b.waiting.moveClientNet(clientNet, true)
	}
}

// extendSpare notes that the lease has to wait for a slot at b.
func (l *Lease) extendSpare(b *backend, now time.Duration) {
	if s := &b.spare; now < s.until[0] && b.hasNone(networks.ClientNet(l.client)) {
		s.until[0] = now + spareFor
		s.until[1] = s.until[0]
	}
}

// hasNone reports whether a client network has no slot.
func (b *backend) hasNone(clientNet netip.Addr) bool { return b.spare.slots.of(clientNet) == 0 }

// room reports whether a request of the route may have another connection to b, whichever routes
// have the others.
func (g *Group) room(b *backend) bool { return g.MaxConns == 0 || b.active < g.MaxConns }

// onlySpare reports whether the slots that are left for the route at b are spare. There must be
// room.
func (g *Group) onlySpare(b *backend) bool {
	// Of fewer than four slots, one would be too large a part. Of many, some become free at any time.
	most := min(g.MaxConns/4, len(b.spare.until))
	left := g.MaxConns - b.active
	return most > 0 && left <= most && loop.Now() < b.spare.until[left-1]
}

// room reports whether the request may have another connection to b.
func (l *Lease) room(b *backend) bool {
	g := l.group
	return g.MaxConns == 0 || g.room(b) && (!g.onlySpare(b) || b.hasNone(networks.ClientNet(l.client)))
}

// spareEnds has the requests that wait served when a slot is spare no more: no other event may
// tell them.
func (b *backend) spareEnds() {
	s := &b.spare
	if s.timed ||
		!slices.ContainsFunc(b.waiting.kinds, func(k *kind) bool { return k.group.room(b) }) {
		return
	}
	now, until := loop.Now(), s.until[1]
	if now >= until {
		until = s.until[0]
	}
	if now >= until {
		return
	}
	s.timed = true
	time.AfterFunc(until-now, func() {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		s.timed = false
		b.serve(nil)
	})
}
