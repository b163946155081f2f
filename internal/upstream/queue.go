package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// waiter is a request that waits for a slot, at all servers of its group that it has not tried.
type waiter struct {
	lease     *Lease // of the request; it has the slot when the promise is resolved
	promise   loop.Promise[struct{}]
	since     time.Duration // by loop.Now
	own       entry         // in the group's queue
	positions []position    // in those of backends

	// Of the first position, so that a waiter is one allocation.
	room  [1]position
	entry entry
}

type entry = fair.Entry[*waiter]

// position is a waiter's entry in the queue of a backend.
type position struct {
	backend *backend
	kind    *kind
	*entry
}

// queue is the requests that wait for a slot at one address. Their clients take turns, as in
// fair.Queue. Thousands may wait and give up at once, so neither a new request nor a slot that
// becomes free may cost a look at each: where one request of a kind can have no slot, no other of
// that kind is looked at. The pool's lock guards it; the zero value is empty.
type queue struct {
	kinds []*kind // those of which requests wait
	turn  uint64  // of all their lines
}

// kind is the requests of one route that have tried the same upstreams and want to come back to the
// same one: if one of them can have a slot at an address, so can the others, as far as the slot is
// not spare.
type kind struct {
	group    *Group
	tried    []*backend
	stickyID uint64
	lines    [2]fair.Queue[*waiter] // of the client networks that have no slot there; of the others
	passed   bool                   // as long as serve runs: it can have no slot now
}

func (k *kind) len() int { return k.lines[0].Len() + k.lines[1].Len() }

// len returns how many requests wait.
func (q *queue) len() (n int) {
	for _, k := range q.kinds {
		n += k.len()
	}
	return n
}

// groups returns the groups whose requests wait.
func (q *queue) groups() (all []*Group) {
	for _, k := range q.kinds {
		if !slices.Contains(all, k.group) {
			all = append(all, k.group)
		}
	}
	return all
}

// kind returns the kind of a request's lease.
func (q *queue) kind(l *Lease) *kind {
	for _, k := range q.kinds {
		if k.group == l.group && k.stickyID == l.StickyID && sameSet(k.tried, l.tried) {
			return k
		}
	}
	k := &kind{group: l.group, tried: l.tried, stickyID: l.StickyID}
	for i := range k.lines {
		k.lines[i].Clock = &q.turn
	}
	q.kinds = append(q.kinds, k)
	return k
}

// sameSet reports whether a and b, which name nothing twice, have the same elements.
func sameSet(a, b []*backend) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(p *backend) bool { return !slices.Contains(b, p) })
}

// moveClientNet notes that a client network has its first slot, or has none any more.
func (q *queue) moveClientNet(clientNet netip.Addr, hasNone bool) {
	for _, k := range q.kinds {
		if hasNone {
			k.lines[1].Move(clientNet, &k.lines[0])
		} else {
			k.lines[0].Move(clientNet, &k.lines[1])
		}
	}
}

// enter has the request wait, behind the others of its client. The caller holds the pool's lock,
// here and in the functions below, but for await.
func (l *Lease) enter(now time.Duration) *waiter {
	w := &waiter{lease: l, since: now}
	w.own.Value, w.entry.Value, w.positions = w, w, w.room[:0]
	l.group.waiting.Add(l.client, &w.own)
	for srv := range l.group.untried(l.tried) {
		w.enqueue(srv.backend)
	}
	if srv := l.stickyServer(now); srv != nil && !slices.Contains(l.group.servers, srv) {
		w.enqueue(srv.backend) // it is drained
	}
	return w
}

// await waits for the slot up to the given time, by loop.Now. If it comes too late, await gives it
// back.
func (w *waiter) await(t *loop.Thread, until time.Duration) error {
	taken := false
	defer func() { // also when the thread is killed
		if !taken {
			w.giveUp()
		}
	}()
	_, err := w.promise.Await(t, max(until-w.lease.now(), 0))
	switch {
	case err == nil:
		taken = true
	case left(err), err == errNowhere, err == errQueueFull, err == errOpen, err == errDown:
	default:
		err = errNoSlot
	}
	return err
}

// giveUp ends the wait, and gives back a slot that came meanwhile. It gives nothing to the requests
// behind: if they could have a slot, serve would have passed over this one.
func (w *waiter) giveUp() {
	l := w.lease
	l.group.pool.mu.Lock()
	w.withdraw()
	l.group.pool.mu.Unlock()
	if l.Held() {
		l.release(l.conn, 0, l.now())
	}
}

// makeRoom is for a group whose queue is full because of the waiter, which has come last. A request
// of the client that has most gives way; that may be the waiter itself.
func (w *waiter) makeRoom() {
	g := w.lease.group
	g.waiting.Remove(&w.own)
	if most := g.waiting.Evictable(w.lease.client); most != nil {
		g.waiting.Add(w.lease.client, &w.own)
		w = most.Value
	}
	w.withdraw()
	w.promise.Reject(errQueueFull)
}

// Pressed reports whether a request has waited for that long for a slot such as this lease has, of
// a client network that has fewer of them, or of the same one, which may be all clients of a proxy.
// So a crowd presses nobody who has less. t is the request's thread.
func (l *Lease) Pressed(t *loop.Thread, long time.Duration) bool {
	if l.server == nil {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	own, slots := networks.ClientNet(loop.ClientOf(t)), &l.server.spare.slots
	for _, k := range l.server.waiting.kinds {
		for i := range k.lines {
			for e := range k.lines[i].Firsts(func(clientNet netip.Addr) bool {
				return clientNet == own || slots.of(clientNet) < slots.of(own)
			}) {
				if loop.Now()-e.Value.since >= long {
					return true
				}
			}
		}
	}
	return false
}

// enqueue puts the waiter into the queue of b.
func (w *waiter) enqueue(b *backend) {
	q, client := &b.waiting, w.lease.client
	e := &w.entry
	if e.Waits() {
		e = &entry{Value: w}
	}
	p := position{b, q.kind(w.lease), e}
	line := &p.kind.lines[0]
	if !b.hasNone(networks.ClientNet(client)) {
		line = &p.kind.lines[1]
	}
	q.turn++
	line.Add(client, p.entry)
	w.positions = append(w.positions, p)
	b.pool.positions++
}

// requeue has the waiter wait at the servers that it may have, which have changed; there has their
// backends.
func (w *waiter) requeue(servers []*server, there map[*backend]bool) {
	l := w.lease
	sticky := l.stickyServer(loop.Now())
	at := make(map[*backend]bool, len(w.positions))
	w.positions = slices.DeleteFunc(w.positions, func(p position) bool {
		stays := there[p.backend] || sticky != nil && sticky.backend == p.backend
		if at[p.backend] = stays; !stays {
			p.dequeue()
		}
		return !stays
	})
	join := func(b *backend) {
		if !at[b] && !slices.Contains(l.tried, b) {
			w.enqueue(b)
		}
	}
	for _, srv := range servers {
		join(srv.backend)
	}
	if sticky != nil && !there[sticky.backend] { // it is drained
		join(sticky.backend)
	}
}

// dequeue takes the waiter out of the queue.
func (p position) dequeue() {
	p.backend.pool.positions--
	p.kind.lines[0].Remove(p.entry) // whichever line it is in
	if p.kind.len() == 0 {
		q := &p.backend.waiting
		i := slices.Index(q.kinds, p.kind)
		q.kinds = slices.Delete(q.kinds, i, i+1)
	}
}

// withdraw takes the waiter out of all queues.
func (w *waiter) withdraw() {
	for _, p := range w.positions {
		p.dequeue()
	}
	w.positions = nil
	w.lease.group.waiting.Remove(&w.own)
}

// served is withdraw for a waiter that gets its slot: it was its client's turn in all queues.
func (w *waiter) served() {
	l := w.lease
	for _, p := range w.positions {
		q := &p.backend.waiting
		q.turn++
		for _, k := range q.kinds {
			for i := range k.lines {
				k.lines[i].Served(l.client)
			}
		}
	}
	l.group.waiting.Take(&w.own)
	w.withdraw()
}

// serve gives slots to the requests that wait, as it is their turn, and first to those whose client
// network has none. It passes over a request whose route has reached its own limit: otherwise one
// long answer would hold up all routes, though only one of them has the low limit. What it leaves
// can have no slot until one becomes free, or is spare no more. The caller is a thread of the loop
// on, whose requests go on in the present turn, or else on is nil.
func (b *backend) serve(on *loop.Loop) {
	for _, k := range b.waiting.kinds {
		k.passed = false
	}
	for k, e := b.next(); k != nil; k, e = b.next() {
		if w := e.Value; w.lease.take(loop.Now()) {
			w.served()
			w.promise.ResolveOn(on, struct{}{})
		} else {
			k.passed = true
		}
	}
	b.spareEnds()
}

// serveAll gives slots to requests that wait for b, and perhaps for others. It is called when b is
// passed over, or works again. They can come to b then, or go elsewhere if they have waited for b
// only: their clients come back to it, or it was the last one that worked.
func (b *backend) serveAll() {
	for _, g := range b.waiting.groups() {
		for _, srv := range g.servers {
			srv.serve(nil)
		}
	}
}

// next returns the request whose turn it is at b, among those for which it has room.
func (b *backend) next() (best *kind, e *entry) {
	for i := range 2 {
		var line *fair.Queue[*waiter]
		for _, k := range b.waiting.kinds {
			here := &k.lines[i]
			if k.passed || here.Len() == 0 || !k.group.room(b) || i == 1 && k.group.onlySpare(b) {
				continue
			}
			if best == nil || here.Before(line) {
				best, line = k, here
			}
		}
		if best != nil {
			return best, line.Next()
		}
	}
	return nil, nil
}
