package upstream

import (
	"container/list"
	"slices"
)

// queue is the requests that wait for a place at one address, in the order in which they came.
// Thousands may give up at once, and a place that becomes free must not cost a look at each that
// waits. The pool's lock guards it; the zero value is empty.
type queue struct {
	tickets list.List      // of *ticket
	groups  map[*Group]int // how many are of each route
}

// spot is a ticket's place in the queue of a peer.
type spot struct {
	peer    *peer
	element *list.Element
}

// join puts the ticket behind the others at p. The caller holds the pool's lock, here and in the
// methods below.
func (tk *ticket) join(p *peer) {
	q := &p.waiting
	if q.groups == nil {
		q.groups = make(map[*Group]int)
	}
	q.groups[tk.group]++
	tk.at = append(tk.at, spot{p, q.tickets.PushBack(tk)})
}

// leave takes the ticket out of the queue at p, if it is there.
func (tk *ticket) leave(p *peer) {
	for i, s := range tk.at {
		if s.peer == p {
			p.waiting.remove(tk.group, s.element)
			tk.at = slices.Delete(tk.at, i, i+1)
			return
		}
	}
}

// withdraw takes the ticket out of all queues, and reports whether it was waiting.
func (tk *ticket) withdraw() bool {
	for _, s := range tk.at {
		s.peer.waiting.remove(tk.group, s.element)
	}
	tk.at = nil
	if tk.own == nil {
		return false
	}
	tk.group.waiting.Remove(tk.own)
	tk.own = nil
	return true
}

func (q *queue) remove(g *Group, e *list.Element) {
	q.tickets.Remove(e)
	if q.groups[g]--; q.groups[g] == 0 {
		delete(q.groups, g)
	}
}

// serve gives places to the requests that wait, in the order in which they came. It passes over a
// request whose route has reached its own limit: otherwise one long answer would hold up all
// routes, though only one of them has the low limit. What it leaves can have no place until one
// becomes free.
func (p *peer) serve() {
	if !p.hasRoom() {
		return
	}
	var none *Group // none of its members has a place for a request that has tried nothing
	for e := p.waiting.tickets.Front(); e != nil; {
		tk := e.Value.(*ticket)
		e = e.Next()
		if !tk.group.room(p) || tk.tried == nil && tk.group == none {
			continue
		}
		got, ok := tk.group.take(tk.loop, tk.tried, tk.want)
		switch {
		case ok:
			tk.withdraw()
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
