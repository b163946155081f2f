// Package fair shares few slots among many clients, one of which may want them all: verifications
// of passwords, handshakes, connections to an upstream.
//
//	queue.go  who is next: networks take turns
//	slots.go  a number of slots, and a Queue for them
package fair

import (
	"cmp"
	"container/list"
	"iter"
	"net/netip"

	"github.com/lwango/lwango/internal/base/networks"
)

// Queue is where entries of many clients wait. Client networks (networks.ClientNet) take
// turns: an IPv4 address, or a /48 of IPv6, which is what a customer gets at most. Within one its
// networks (networks.Of) take turns, and within a network the entry that came first is the first.
// So a client with a thousand entries delays the only entry of another client by one of them, not
// by all.
//
// The zero Queue is empty. It must not be copied, and it has no lock.
type Queue[T any] struct {
	// Turn, if it is not nil, belongs to several queues whose turns are compared. Their owner counts
	// it up before each change of one of them.
	Turn *uint64

	root group[T]
}

// now is the turn that something gets that goes behind all others.
func (q *Queue[T]) now() uint64 {
	if q.Turn == nil {
		return 0
	}
	return *q.Turn
}

// Entry is one that waits in a Queue, or has waited there.
type Entry[T any] struct {
	Value T

	network *group[T] // nil: does not wait any more
	at      *list.Element
	turn    uint64
}

// Waits reports whether e is in its queue.
func (e *Entry[T]) Waits() bool { return e.network != nil }

// group is the queue, which is made of client networks, or one of these, made of networks, or a
// network, made of entries.
type group[T any] struct {
	key     netip.Addr
	above   *group[T]                // nil: the queue
	at      *list.Element            // in above.inTurn
	inTurn  list.List                // of *group[T], or of *Entry[T]
	members map[netip.Addr]*group[T] // those in inTurn by key; nil: they are entries
	n       int                      // entries
	turn    uint64                   // since when it waits for its turn

	// largest is the member that had the most entries when it was last looked for, or one with more
	// since. nil: none.
	largest *group[T]
}

// Len returns how many entries wait.
func (q *Queue[T]) Len() int { return q.root.n }

// Add puts e, which does not wait anywhere, behind the others of client.
func (q *Queue[T]) Add(client netip.Addr, e *Entry[T]) {
	now := q.now()
	network := q.root.member(networks.ClientNet(client), now).member(networks.Of(client), now)
	e.network, e.turn = network, now
	e.at = network.inTurn.PushBack(e)
	network.n++
	for g := network; g.above != nil; g = g.above {
		g.above.n++
		g.above.compare(g)
	}
}

// compare notes that g has a member with as many entries.
func (g *group[T]) compare(m *group[T]) {
	if g.largest == nil || m.n > g.largest.n {
		g.largest = m
	}
}

// member returns the member of g with that key, which is the last in turn if it is new.
func (g *group[T]) member(key netip.Addr, now uint64) *group[T] {
	m := g.members[key]
	if m == nil {
		if g.members == nil {
			g.members = make(map[netip.Addr]*group[T])
		}
		m = &group[T]{key: key, above: g, turn: now}
		m.at = g.inTurn.PushBack(m)
		g.members[key] = m
	}
	return m
}

// Remove takes e out without a turn for it, because it gives up. It does nothing if e does not
// wait.
func (q *Queue[T]) Remove(e *Entry[T]) {
	g := e.network
	if g == nil {
		return
	}
	g.inTurn.Remove(e.at)
	e.network, e.at = nil, nil
	g.n--
	for ; g.above != nil; g = g.above {
		above := g.above
		above.n--
		if g.n == 0 {
			above.drop(g)
		}
	}
}

// drop takes a member out of g.
func (g *group[T]) drop(m *group[T]) {
	g.inTurn.Remove(m.at)
	delete(g.members, m.key)
	if g.largest == m {
		g.largest = nil
	}
}

// Take takes e out because it is served: its network and its client network wait for their next
// turn.
func (q *Queue[T]) Take(e *Entry[T]) {
	if e.Waits() {
		q.pass(e.network)
		q.Remove(e)
	}
}

// Served notes that an entry of client was served from another queue: here, too, its network and
// its client network wait for their next turn.
func (q *Queue[T]) Served(client netip.Addr) {
	if q.root.n == 0 {
		return
	}
	if clientNet := q.root.members[networks.ClientNet(client)]; clientNet != nil {
		if network := clientNet.members[networks.Of(client)]; network != nil {
			q.pass(network)
		} else {
			q.pass(clientNet)
		}
	}
}

// pass moves g, and what it belongs to, behind the others.
func (q *Queue[T]) pass(g *group[T]) {
	for ; g.above != nil; g = g.above {
		g.turn = q.now()
		g.above.inTurn.MoveToBack(g.at)
	}
}

// Move moves all entries of a client network to another queue with the same Turn, where it keeps
// its turn. The client network must have none there.
func (q *Queue[T]) Move(clientNet netip.Addr, to *Queue[T]) {
	g := q.root.members[clientNet]
	if g == nil {
		return
	}
	q.root.drop(g)
	q.root.n -= g.n
	g.above = &to.root
	g.at = to.root.inTurn.PushBack(g)
	for e := g.at.Prev(); e != nil && e.Value.(*group[T]).turn > g.turn; e = g.at.Prev() {
		to.root.inTurn.MoveBefore(g.at, e) // past those that have come since its last turn
	}
	if to.root.members == nil {
		to.root.members = make(map[netip.Addr]*group[T])
	}
	to.root.members[clientNet] = g
	to.root.n += g.n
	to.root.compare(g)
}

// Next returns the entry whose turn it is, nil if none waits.
func (q *Queue[T]) Next() *Entry[T] {
	for e := range q.Firsts(nil) {
		return e
	}
	return nil
}

// Before reports whether it is an entry's turn in q before it is one's in another queue. Both
// queues have the same Turn, and entries.
func (q *Queue[T]) Before(other *Queue[T]) bool {
	a, b := q.Next(), other.Next()
	return cmp.Or(cmp.Compare(a.network.above.turn, b.network.above.turn),
		cmp.Compare(a.network.turn, b.network.turn), cmp.Compare(a.turn, b.turn)) < 0
}

// Firsts yields, in turn, the entry of each network that has waited for longest. It yields none of
// a client network that may, if it is not nil, does not let in.
func (q *Queue[T]) Firsts(may func(clientNet netip.Addr) bool) iter.Seq[*Entry[T]] {
	return func(yield func(*Entry[T]) bool) {
		for clientNet := range elements[*group[T]](&q.root.inTurn) {
			if may != nil && !may(clientNet.key) {
				continue
			}
			for network := range elements[*group[T]](&clientNet.inTurn) {
				if !yield(network.inTurn.Front().Value.(*Entry[T])) {
					return
				}
			}
		}
	}
}

// All yields all entries, those of a network in turn.
func (q *Queue[T]) All() iter.Seq[*Entry[T]] {
	return func(yield func(*Entry[T]) bool) {
		for clientNet := range elements[*group[T]](&q.root.inTurn) {
			for network := range elements[*group[T]](&clientNet.inTurn) {
				for e := range elements[*Entry[T]](&network.inTurn) {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// elements yields what is in l. What is yielded may be removed or moved meanwhile.
func elements[T any](l *list.List) iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := l.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(T)) {
				return
			}
			e = next
		}
	}
}

// Surplus is for a queue that is full. It returns the entry that gives way to a new one of client:
// the newest of a network of a client network with more entries than the client's. It returns nil
// if there is none, so that the new one has to go.
func (q *Queue[T]) Surplus(client netip.Addr) *Entry[T] {
	own, ofNetwork := 0, 0
	if clientNet := q.root.members[networks.ClientNet(client)]; clientNet != nil {
		own = clientNet.n
		if network := clientNet.members[networks.Of(client)]; network != nil {
			ofNetwork = network.n
		}
	}
	clientNet := q.root.beyond(own)
	switch {
	case clientNet != nil:
		ofNetwork = 0 // any network of it
	case own > 0: // its own client network is among the largest; another network in it may have more
		clientNet = q.root.members[networks.ClientNet(client)]
	default:
		return nil
	}
	network := clientNet.beyond(ofNetwork)
	if network == nil {
		return nil
	}
	return network.inTurn.Back().Value.(*Entry[T])
}

// beyond returns a member that has at least two entries more than n, or one more if n is 0, so that
// it still has no fewer than the other one when one of its entries has made room. It returns nil if
// there is none. It looks at all members only for those who have less than an equal share; then
// there is a larger one, which is known for the next time.
func (g *group[T]) beyond(n int) *group[T] {
	least := n + 2
	if n == 0 {
		least = 1
	}
	if g.largest != nil && g.largest.n >= least {
		return g.largest
	}
	if n*len(g.members) >= g.n {
		return nil
	}
	for _, m := range g.members {
		g.compare(m)
	}
	if g.largest == nil || g.largest.n < least {
		return nil
	}
	return g.largest
}
