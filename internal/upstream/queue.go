package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/fair"
	"github.com/lwango/lwango/internal/networks"
	"github.com/lwango/lwango/loop"
)

// ticket is a request that waits for a slot, at all members of its group that it has not tried.
type ticket struct {
	lease   *Lease // of the request; it has the slot when the promise is resolved
	promise loop.Promise[struct{}]
	since   time.Time
	own     entry // in the group's queue
	spots   []spot
}

type entry = fair.Entry[*ticket]

// spot is a ticket's position in the queue of a peer.
type spot struct {
	peer *peer
	*entry
}

// queue is the requests that wait for a slot at one address. Their clients take turns, as in
// fair.Queue. Thousands may give up at once, and a slot that becomes free must not cost a look at
// each that waits. The pool's lock guards it; the zero value is empty.
type queue struct {
	tickets fair.Queue[*ticket]
	groups  map[*Group]int // how many are of each route
}

// enter has the request wait, behind the others of its client. The caller holds the pool's lock,
// here and in the functions below, but for await.
func (l *Lease) enter() *ticket {
	tk := &ticket{lease: l, since: time.Now()}
	tk.own.Value = tk
	l.group.waiting.Add(l.client, &tk.own)
	for m := range l.group.untried(l.tried) {
		tk.join(m.peer)
	}
	return tk
}

// await waits for the slot up to the given time. If it comes too late, await gives it back.
func (tk *ticket) await(t *loop.Thread, until time.Time) error {
	taken := false
	defer func() { // also when the thread is killed
		if !taken {
			tk.giveUp()
		}
	}()
	_, err := tk.promise.Await(t, max(time.Until(until), 0))
	switch {
	case err == nil:
		taken = true
	case left(err), err == errNowhere, err == errQueueFull:
	default:
		err = errNoSlot
	}
	return err
}

// giveUp ends the wait, and gives back a slot that came meanwhile. It gives nothing to the requests
// behind: if they could have a slot, serve would have passed over this one.
func (tk *ticket) giveUp() {
	l := tk.lease
	l.group.pool.mu.Lock()
	tk.withdraw()
	l.group.pool.mu.Unlock()
	if l.Held() {
		l.release(l.kept, 0)
	}
}

// makeRoom is for a group whose queue is full because of the ticket, which has come last. A request
// of the client that has most gives way; that may be the ticket itself.
func (tk *ticket) makeRoom() {
	g := tk.lease.group
	g.waiting.Remove(&tk.own)
	if most := g.waiting.Surplus(tk.lease.client); most != nil {
		g.waiting.Add(tk.lease.client, &tk.own)
		tk = most.Value
	}
	tk.withdraw()
	tk.promise.Reject(errQueueFull)
}

// Pressed reports whether a request has waited for that long for a slot such as this lease has, of
// a site that has fewer of them, or of the same one, which may be all clients of a proxy. So a crowd
// presses nobody who has less.
func (l *Lease) Pressed(long time.Duration) bool {
	if l.at == nil {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	own, slots := networks.SiteOf(l.client), l.at.holders.slots
	for e := range l.at.waiting.tickets.InTurn(func(site netip.Addr) bool {
		return site == own || slots[site] < slots[own]
	}) {
		if time.Since(e.Value.since) >= long {
			return true
		}
	}
	return false
}

// join puts the ticket into the queue of p.
func (tk *ticket) join(p *peer) {
	q := &p.waiting
	if q.groups == nil {
		q.groups = make(map[*Group]int)
	}
	q.groups[tk.lease.group]++
	e := &entry{Value: tk}
	q.tickets.Add(tk.lease.client, e)
	tk.spots = append(tk.spots, spot{p, e})
}

// leave takes the ticket out of the queue at p, if it is there.
func (tk *ticket) leave(p *peer) {
	for i, s := range tk.spots {
		if s.peer == p {
			s.peer.waiting.tickets.Remove(s.entry)
			s.peer.waiting.left(tk.lease.group)
			tk.spots = slices.Delete(tk.spots, i, i+1)
			return
		}
	}
}

// withdraw takes the ticket out of all queues.
func (tk *ticket) withdraw() { tk.end((*fair.Queue[*ticket]).Remove) }

// end takes the ticket out of all queues, with Take or Remove of fair.Queue.
func (tk *ticket) end(out func(*fair.Queue[*ticket], *entry)) {
	g := tk.lease.group
	for _, s := range tk.spots {
		out(&s.peer.waiting.tickets, s.entry)
		s.peer.waiting.left(g)
	}
	tk.spots = nil
	out(&g.waiting, &tk.own)
}

// left notes that a ticket of g is not in the queue any more.
func (q *queue) left(g *Group) {
	if q.groups[g]--; q.groups[g] == 0 {
		delete(q.groups, g)
	}
}

// serve gives slots to the requests that wait, as it is their turn, and first to those whose site
// has none. It passes over a request whose route has reached its own limit: otherwise one long
// answer would hold up all routes, though only one of them has the low limit. What it leaves can
// have no slot until one becomes free, or is spare no more.
func (p *peer) serve() {
	if p.hasRoom() && p.serveThose(p.hasNone) && p.serveThose(p.hasRoomFor) {
		p.spareEnds()
	}
}

// serveThose serves the requests of the sites that may have a slot. It reports whether there is
// still room.
func (p *peer) serveThose(may func(site netip.Addr) bool) bool {
	var none *Group // none of its members has a slot for a request of the site that has tried nothing
	for e := range p.waiting.tickets.InTurn(func(site netip.Addr) bool {
		none = nil
		return may(site)
	}) {
		tk := e.Value
		l := tk.lease
		if l.tried == nil && l.group == none || !l.room(p) { // in this order: it is for all that wait
			continue
		}
		switch {
		case l.take():
			tk.end((*fair.Queue[*ticket]).Take)
			tk.promise.Resolve(struct{}{})
			if !p.hasRoom() {
				return false
			}
		case l.tried == nil && l.Home == 0:
			none = l.group
		}
	}
	return true
}
