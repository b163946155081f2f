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

// Queue is where entries of many clients wait. Client networks (networks.ClientNet) take turns: an
// IPv4 address, or a /48 of IPv6, which is the most that a customer gets. Within a client network
// its networks (networks.Of) take turns, and within a network the entries are in the order in which
// they came. So a client with a thousand entries delays the only entry of another client by one
// entry, not by a thousand.
//
// The zero Queue is empty. It must not be copied, and it has no lock.
type Queue[T any] struct {
	// Clock, if it is not nil, is a logical clock that several queues share, so that Before can
	// compare them. Their owner increments it before each change of one of them.
	Clock *uint64

	root group[T]
}

// now returns the time of the Clock, 0 without one.
func (q *Queue[T]) now() uint64 {
	if q.Clock == nil {
		return 0
	}
	return *q.Clock
}

// Entry is an entry that waits in a Queue, or has waited there.
type Entry[T any] struct {
	Value T

	network *group[T] // nil: does not wait any more
	at      *list.Element
	since   uint64
}

// Waits reports whether e is in its queue.
func (e *Entry[T]) Waits() bool { return e.network != nil }

// group is the queue, which is made of client networks, or one of these, made of networks, or a
// network, made of entries.
type group[T any] struct {
	key     netip.Addr
	parent  *group[T]                // nil: the queue
	at      *list.Element            // in above.inTurn
	inTurn  list.List                // of *group[T], or of *Entry[T]
	members map[netip.Addr]*group[T] // those in inTurn by key; nil: they are entries
	n       int                      // entries
	since   uint64                   // since when it waits for its turn

	// largest is the member that had the most entries when it was last looked for, or one with more
	// since. nil: none.
	largest *group[T]
}

// Len returns how many entries wait.
func (q *Queue[T]) Len() int { return q.root.n }

// Add puts e, which does not wait anywhere, after the other entries of client.
func (q *Queue[T]) Add(client netip.Addr, e *Entry[T]) {
	now := q.now()
	network := q.root.member(networks.ClientNet(client), now).member(networks.Of(client), now)
	e.network, e.since = network, now
	e.at = network.inTurn.PushBack(e)
	network.n++
	for g := network; g.parent != nil; g = g.parent {
		g.parent.n++
		g.parent.noteLargest(g)
	}
}

// noteLargest updates g.largest after m has got an entry.
func (g *group[T]) noteLargest(m *group[T]) {
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
		m = &group[T]{key: key, parent: g, since: now}
		m.at = g.inTurn.PushBack(m)
		g.members[key] = m
	}
	return m
}

// Remove takes e out because it gives up: its network and its client network keep their turn. It
// does nothing if e does not wait.
func (q *Queue[T]) Remove(e *Entry[T]) {
	g := e.network
	if g == nil {
		return
	}
	g.inTurn.Remove(e.at)
	e.network, e.at = nil, nil
	g.n--
	for ; g.parent != nil; g = g.parent {
		above := g.parent
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
		q.moveToBack(e.network)
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
			q.moveToBack(network)
		} else {
			q.moveToBack(clientNet)
		}
	}
}

// moveToBack moves g, and the groups that contain it, after the others.
func (q *Queue[T]) moveToBack(g *group[T]) {
	for ; g.parent != nil; g = g.parent {
		g.since = q.now()
		g.parent.inTurn.MoveToBack(g.at)
	}
}

// Move moves all entries of a client network to another queue with the same Clock, where the client
// network keeps its turn. It must have no entries there.
func (q *Queue[T]) Move(clientNet netip.Addr, to *Queue[T]) {
	g := q.root.members[clientNet]
	if g == nil {
		return
	}
	q.root.drop(g)
	q.root.n -= g.n
	g.parent = &to.root
	g.at = to.root.inTurn.PushBack(g)
	for e := g.at.Prev(); e != nil && e.Value.(*group[T]).since > g.since; e = g.at.Prev() {
		to.root.inTurn.MoveBefore(g.at, e) // before those that have waited for a shorter time
	}
	if to.root.members == nil {
		to.root.members = make(map[netip.Addr]*group[T])
	}
	to.root.members[clientNet] = g
	to.root.n += g.n
	to.root.noteLargest(g)
}

// Next returns the entry whose turn it is, nil if none waits.
func (q *Queue[T]) Next() *Entry[T] {
	for e := range q.Firsts(nil) {
		return e
	}
	return nil
}

// Before reports whether the next entry of q has waited longer for its turn than that of another
// queue. Both queues have the same Clock, and entries.
func (q *Queue[T]) Before(other *Queue[T]) bool {
	a, b := q.Next(), other.Next()
	return cmp.Or(cmp.Compare(a.network.parent.since, b.network.parent.since),
		cmp.Compare(a.network.since, b.network.since), cmp.Compare(a.since, b.since)) < 0
}

// Firsts yields the first entry of each network, in the order of turns. It leaves out client
// networks for which may, if it is not nil, returns false.
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

// All yields all entries, network by network.
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

// elements yields the values of l. The yielded element may be removed or moved meanwhile.
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

// Evictable is for a full queue. It returns the entry to remove for a new entry of client: the
// newest of a network of a client network that has more entries than the client's. If there is
// none, it returns nil, and the new entry has to be refused.
func (q *Queue[T]) Evictable(client netip.Addr) *Entry[T] {
	own, ofNetwork := 0, 0
	if clientNet := q.root.members[networks.ClientNet(client)]; clientNet != nil {
		own = clientNet.n
		if network := clientNet.members[networks.Of(client)]; network != nil {
			ofNetwork = network.n
		}
	}
	clientNet := q.root.larger(own)
	switch {
	case clientNet != nil:
		ofNetwork = 0 // any network of it
	case own > 0: // its own client network is among the largest; another network in it may have more
		clientNet = q.root.members[networks.ClientNet(client)]
	default:
		return nil
	}
	network := clientNet.larger(ofNetwork)
	if network == nil {
		return nil
	}
	return network.inTurn.Back().Value.(*Entry[T])
}

// larger returns a member that has at least two entries more than n, or one more if n is 0, so that
// after the removal of one it does not have fewer entries than a member with n and one more. It
// returns nil if there is none. It searches all members only if n is less than an equal share; then
// there is a larger member, which largest remembers.
func (g *group[T]) larger(n int) *group[T] {
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
		g.noteLargest(m)
	}
	if g.largest == nil || g.largest.n < least {
		return nil
	}
	return g.largest
}
