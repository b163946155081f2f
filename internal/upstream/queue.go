package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/fair"
	"github.com/lwango/lwango/loop"
)

// ticket is a request that waits for a place, at all members of its group that it has not tried.
type ticket struct {
	promise loop.Promise[place]
	group   *Group
	loop    *loop.Loop // of its thread
	client  netip.Addr
	since   time.Time
	tried   []*peer
	want    Want
	own     entry // in the group's queue
	at      []spot
}

type entry = fair.Entry[*ticket]

// spot is a ticket's place in the queue of a peer.
type spot struct {
	peer *peer
	*entry
}

// queue is the requests that wait for a place at one address. Their clients take turns, as in
// fair.Queue. Thousands may give up at once, and a place that becomes free must not cost a look at
// each that waits. The pool's lock guards it; the zero value is empty.
type queue struct {
	tickets fair.Queue[*ticket]
	groups  map[*Group]int // how many are of each route
}

// enter has a request wait, behind the others of its client. The caller holds the pool's lock, here
// and in the functions below.
func (g *Group) enter(t *loop.Thread, tried []*peer, want Want) *ticket {
	tk := &ticket{group: g, loop: t.Loop(), client: loop.ClientOf(t), since: time.Now(),
		tried: tried, want: want}
	tk.own.Value = tk
	g.waiting.Add(tk.client, &tk.own)
	for m := range g.untried(tried) {
		tk.join(m.peer)
	}
	return tk
}

// makeRoom is for a group whose queue is full because of the ticket, which has come last. A request
// of the client that has most gives way; that may be the ticket itself.
func (tk *ticket) makeRoom() {
	g := tk.group
	g.waiting.Remove(&tk.own)
	if most := g.waiting.Surplus(tk.client); most != nil {
		g.waiting.Add(tk.client, &tk.own)
		tk = most.Value
	}
	tk.withdraw()
	tk.promise.Reject(errQueueFull)
}

// Pressed reports whether a request has waited for that long for a place such as this lease has.
func (l *Lease) Pressed(long time.Duration) bool {
	if l.at == nil {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	for e := range l.at.waiting.tickets.InTurn() {
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
	q.groups[tk.group]++
	e := &entry{Value: tk}
	q.tickets.Add(tk.client, e)
	tk.at = append(tk.at, spot{p, e})
}

// leave takes the ticket out of the queue at p, if it is there.
func (tk *ticket) leave(p *peer) {
	for i, s := range tk.at {
		if s.peer == p {
			s.peer.waiting.tickets.Remove(s.entry)
			s.peer.waiting.left(tk.group)
			tk.at = slices.Delete(tk.at, i, i+1)
			return
		}
	}
}

// withdraw takes the ticket out of all queues, and reports whether it was in any.
func (tk *ticket) withdraw() bool {
	return tk.end((*fair.Queue[*ticket]).Remove)
}

// end takes the ticket out of all queues, with Take or Remove of fair.Queue.
func (tk *ticket) end(out func(*fair.Queue[*ticket], *entry)) bool {
	waited := tk.own.Waits() || len(tk.at) > 0
	for _, s := range tk.at {
		out(&s.peer.waiting.tickets, s.entry)
		s.peer.waiting.left(tk.group)
	}
	tk.at = nil
	out(&tk.group.waiting, &tk.own)
	return waited
}

// left notes that a ticket of g is not in the queue any more.
func (q *queue) left(g *Group) {
	if q.groups[g]--; q.groups[g] == 0 {
		delete(q.groups, g)
	}
}

// serve gives places to the requests that wait, as it is their turn. It passes over a request whose
// route has reached its own limit: otherwise one long answer would hold up all routes, though only
// one of them has the low limit. What it leaves can have no place until one becomes free.
func (p *peer) serve() {
	if !p.hasRoom() {
		return
	}
	var none *Group // none of its members has a place for a request that has tried nothing
	for e := range p.waiting.tickets.InTurn() {
		tk := e.Value
		if !tk.group.room(p) || tk.tried == nil && tk.group == none {
			continue
		}
		got, ok := tk.group.take(tk.loop, tk.tried, tk.want)
		switch {
		case ok:
			tk.end((*fair.Queue[*ticket]).Take)
			tk.promise.Resolve(got)
			if !p.hasRoom() {
				return
			}
		case tk.tried == nil:
			none = tk.group
		}
	}
}

// hasRoom reports whether a route whose requests wait may have another connection.
func (p *peer) hasRoom() bool {
	for g := range p.waiting.groups {
		if g.room(p) {
			return true
		}
	}
	return false
}
