package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// spareTime is how long a slot is spare after a client network without a slot has needed it. It is
// a variable only for the tests.
var spareTime = time.Minute

// spareSlots counts the slots that each client network (as in fair.Queue) has at an address in
// groups with MaxConns, and decides which free slots are spare. The pool's lock guards it.
//
// A free slot is first for client networks that have none. While such networks arrive, besides
// others, the last free slot is spare: it is only for them. Otherwise a newcomer would wait until
// the crowd of another client gives a slot back; and if the crowd's requests began together, they
// also end together, much later. If one spare slot is not enough, two are spare. Networks that
// always have slots, such as a few proxies in front, share all slots.
type spareSlots struct {
	slots         slotCounts // of each client network that has any
	lastClientNet netip.Addr // the client network that got the last slot
	timed         bool       // a timer is set for the end of until

	// By loop.Now: until when the last free slot is spare, and until when another one is.
	until [2]time.Duration
}

// countSlot counts the lease's slot at b.
func (l *Lease) countSlot(b *backend, now time.Duration) {
	if !l.group.limited {
		return
	}
	s, clientNet := &b.spare, networks.ClientNet(l.client)
	has := s.slots.of(clientNet)
	if has == 0 && clientNet != s.lastClientNet && s.slots.few != nil { // nil: the first of all
		s.until[0] = now + spareTime
	}
	s.lastClientNet = clientNet
	if s.slots.set(clientNet, has+1); has == 0 {
		b.waiting.moveClientNet(clientNet, false)
	}
}

// uncountSlot undoes countSlot.
func (l *Lease) uncountSlot(b *backend) {
	if !l.group.limited {
		return
	}
	s, clientNet := &b.spare, networks.ClientNet(l.client)
	has := s.slots.of(clientNet)
	if s.slots.set(clientNet, max(has-1, 0)); has <= 1 {
		b.waiting.moveClientNet(clientNet, true)
	}
}

// extendSpare makes a slot spare for longer, since the lease has to wait for one at b.
func (l *Lease) extendSpare(b *backend, now time.Duration) {
	if s := &b.spare; now < s.until[0] && b.hasNoSlot(networks.ClientNet(l.client)) {
		s.until[0] = now + spareTime
		s.until[1] = s.until[0]
	}
}

// hasNoSlot reports whether a client network has no slot.
func (b *backend) hasNoSlot(clientNet netip.Addr) bool { return b.spare.slots.of(clientNet) == 0 }

// room reports whether a request of the route may have another connection to b, whatever routes
// have the present ones.
func (g *Group) room(b *backend) bool {
	most := g.maxConns(b)
	return most == 0 || b.active < most
}

// maxConns returns how many connections the group may have to b; 0: any number.
func (g *Group) maxConns(b *backend) int {
	if own := g.ownMaxConns[b]; own > 0 {
		return own
	}
	return g.MaxConns
}

// onlySpare reports whether all slots that are left for the route at b are spare. There must be
// room.
func (g *Group) onlySpare(b *backend) bool {
	// Of fewer than four slots, one would be too large a share. Of many, some are free at any time.
	all := g.maxConns(b)
	most, left := min(all/4, len(b.spare.until)), all-b.active
	return most > 0 && left <= most && loop.Now() < b.spare.until[left-1]
}

// room reports whether the request may have another connection to b.
func (l *Lease) room(b *backend) bool {
	g := l.group
	return !g.limited || g.room(b) && (!g.onlySpare(b) ||
		b.hasNoSlot(networks.ClientNet(l.client)))
}

// setSpareTimer sets a timer that serves waiting requests when a slot is no longer spare: no other
// event may wake them.
func (b *backend) setSpareTimer() {
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
