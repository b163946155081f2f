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

// add puts tk behind the others at m.
func (q *queue) add(tk *ticket, m *member) {
	if q.groups == nil {
		q.groups = make(map[*Group]int)
	}
	q.groups[tk.group]++
	tk.at = slices.Grow(tk.at, len(tk.group.members))[:len(tk.group.members)]
	tk.at[m.index] = q.tickets.PushBack(tk)
}

// remove takes tk out, and reports whether it was in.
func (q *queue) remove(tk *ticket, m *member) bool {
	if tk.at == nil || tk.at[m.index] == nil {
		return false
	}
	q.tickets.Remove(tk.at[m.index])
	tk.at[m.index] = nil
	if q.groups[tk.group]--; q.groups[tk.group] == 0 {
		delete(q.groups, tk.group)
	}
	return true
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
		got, ok := tk.group.take(tk.loop, tk.tried, tk.fresh)
		switch {
		case ok:
			tk.group.leave(tk)
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
