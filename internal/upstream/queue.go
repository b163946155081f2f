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
	lease     *Lease // of the request; has the slot once the promise is resolved
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

// queue has the requests that wait for a slot at one address. Their clients take turns, as in
// fair.Queue. Thousands may wait and give up at once, so neither a new request nor a free slot may
// cost a look at each of them: if one request of a kind can have no slot, no other of that kind is
// considered. The pool's lock guards it; the zero value is empty.
type queue struct {
	kinds []*kind // kinds of waiting requests
	turn  uint64  // of all their lines
}

// kind has the waiting requests of one route that have tried the same upstreams and have the same
// sticky one: if one of them can have a slot at an address, so can the others, unless the slot is
// spare.
type kind struct {
	group    *Group
	tried    []*backend
	stickyID uint64
	lines    [2]fair.Queue[*waiter] // of the client networks that have no slot there; of the others
	passed   bool                   // while serve runs: it can have no slot now
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

// moveClientNet notes that a client network has got its first slot, or lost its last.
func (q *queue) moveClientNet(clientNet netip.Addr, hasNone bool) {
	for _, k := range q.kinds {
		if hasNone {
			k.lines[1].Move(clientNet, &k.lines[0])
		} else {
			k.lines[0].Move(clientNet, &k.lines[1])
		}
	}
}

// enter puts the request into the queues, after the others of its client. The caller holds the
// pool's lock, here and in the functions below, except await.
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

// await waits for the slot up to the given time, by loop.Now. It gives back a slot that comes too
// late.
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
	case clientLeft(err), err == errNoServers, err == errQueueFull, err == errOpen, err == errDown:
	default:
		err = errNoSlot
	}
	return err
}

// giveUp ends the wait, and gives back a slot that came meanwhile. It need not serve the requests
// after it: if they could have a slot, serve would have skipped this one.
func (w *waiter) giveUp() {
	l := w.lease
	l.group.pool.mu.Lock()
	w.withdraw()
	l.group.pool.mu.Unlock()
	if l.HasSlot() {
		l.release(l.conn, 0, l.now())
	}
}

// makeRoom is for a group whose queue is full because of the waiter, which is the last one. It
// removes a request of the client with most requests; that may be the waiter itself.
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

// CrowdedFor reports whether a request has waited for at least long for a slot like this lease's,
// if its client network has fewer slots, or is the same, which may be all clients of a proxy. So a
// crowd does not press clients with fewer slots. t is the request's thread.
func (l *Lease) CrowdedFor(t *loop.Thread, long time.Duration) bool {
	if l.server == nil {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	own, slots := networks.ClientNet(t.Layer().Client()), &l.server.spare.slots
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
	if !b.hasNoSlot(networks.ClientNet(client)) {
		line = &p.kind.lines[1]
	}
	q.turn++
	line.Add(client, p.entry)
	w.positions = append(w.positions, p)
	b.pool.positions++
}

// requeue puts the waiter into the queues of the servers that it may have, which have changed;
// there has their backends.
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

// served is withdraw for a waiter that gets its slot, which counts as its client's turn in all
// queues.
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

// serve gives slots to waiting requests in turn, first to those whose client network has none. It
// skips a request whose route has reached its own limit: otherwise one long answer would delay all
// routes, although only one has the low limit. The remaining requests can have no slot until one
// becomes free, or is no longer spare. The caller is a thread of the loop on, whose requests go on
// in the present turn, or on is nil.
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
	b.setSpareTimer()
}

// serveAll gives slots to requests that wait for b, and perhaps for others. It is called when b is
// avoided, or works again. They can go to b then, or elsewhere if they have waited for b only,
// because it is their sticky server or was the last one that worked.
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
