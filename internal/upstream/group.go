package upstream

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

var (
	errQueueFull = errors.New("all connections are taken, and the queue is full")
	errNoPlace   = errors.New("no connection has become free in time")
)

// Settings are what a route says of its upstreams.
type Settings struct {
	// Addresses are "unix:/path" or "host:port", each perhaps with "weight=N" and "backup" behind
	// it. Paths of sockets may be relative to Dir.
	Addresses []string
	Dir       string

	// TLS is for the addresses that begin with "https://". With nil that is no address, and neither
	// is one with "http://".
	TLS *Security

	// LeastConn prefers the address that has the fewest connections for its weight. Otherwise the
	// addresses take turns.
	LeastConn bool

	// MaxConns limits the connections to each address, including those that are kept and those of
	// other routes. 0: any number.
	MaxConns       int
	MaxQueue       int           // requests of the route that may wait for a connection
	QueueTimeout   time.Duration // for how long
	MaxIdle        int           // connections that are kept, at each address; 0: none is
	IdleTimeout    time.Duration // for how long
	ConnectTimeout time.Duration // for a connection, with TLS, and with as many addresses as are tried

	// Newest gives a request the kept connection that was used last, so that those a burst has left
	// are closed after IdleTimeout. Otherwise it gets the oldest, see idleFor.
	Newest bool

	// Check, if it is not nil, is how Watch finds out whether the addresses work.
	Check *Check

	// Unreached, if it is not nil, is called when a request could not connect to an upstream and
	// the route has others. The call is on the request's thread and must not wait.
	Unreached func(name string, err error)
}

// Group is the upstreams of a route, with its limits. It does not change once it is built; the
// pool's lock guards what is counted.
type Group struct {
	Settings
	pool    *Pool
	members []*member
	queued  int // requests of the route that wait for a place
}

// member is an address as one route has it.
type member struct {
	*peer
	name    string // as the configuration has it
	weight  int
	backup  bool
	index   int      // in its group
	verdict *verdict // of the group's checks; nil: there are none

	current int // of smooth weighted round-robin
}

// place is the right to have a connection to a member: one that was kept, or else a new one.
type place struct {
	*member
	kept
}

// ticket is a request that waits for a place, at all members of its group that it has not tried.
type ticket struct {
	promise loop.Promise[place]
	group   *Group
	loop    *loop.Loop // of its thread
	tried   []bool
	fresh   bool
	at      []*list.Element // its places in the queues, by index; nil: it is not in that one
}

// Group makes a group. An error says which of the addresses is wrong, and what was expected.
func (p *Pool) Group(s Settings) (*Group, error) {
	g := &Group{Settings: s, pool: p}
	for _, text := range s.Addresses {
		m, at, err := parse(text, s.Dir, s.TLS != nil)
		if err != nil {
			return nil, err
		}
		var config *tls.Config
		if at.secure {
			host, _, _ := net.SplitHostPort(at.address) // "" of a socket
			if config, err = s.TLS.of(host); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			at.id = s.TLS.id
		}
		for _, other := range g.members {
			if other.endpoint == at {
				return nil, fmt.Errorf("%s: named twice", m.name)
			}
		}
		m.peer, m.index = p.peer(at, config), len(g.members)
		if s.Check != nil {
			m.verdict = p.verdict(m.peer, s.Check.ID)
		}
		g.members = append(g.members, m)
	}
	return g, nil
}

// Primaries returns how many of the addresses are no backups.
func (g *Group) Primaries() (n int) {
	for _, m := range g.members {
		if !m.backup {
			n++
		}
	}
	return n
}

// Secure reports whether TLS is spoken at one of the addresses.
func (g *Group) Secure() bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return m.tls != nil })
}

// untried yields the members that a request has not tried. The caller holds the pool's lock, here
// and in the methods below. Only acquire, withdraw and release take it themselves.
func (g *Group) untried(tried []bool) iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for _, m := range g.members {
			if (tried == nil || !tried[m.index]) && !yield(m) {
				return
			}
		}
	}
}

// acquire returns a place at a member that was not tried, and waits for one up to the given time.
// fresh: a kept connection will not do. The caller gives the place back with release.
func (g *Group) acquire(t *loop.Thread, until time.Time, tried []bool, fresh bool) (place, error) {
	g.pool.mu.Lock()
	if !g.crowded(tried) {
		if p, ok := g.take(t.Loop(), tried, fresh); ok {
			g.pool.mu.Unlock()
			return p, nil
		}
	}
	tk := &ticket{group: g, loop: t.Loop(), tried: tried, fresh: fresh}
	g.queued++
	for m := range g.untried(tried) {
		m.waiting.add(tk, m)
	}
	for m := range g.untried(tried) {
		m.serve() // the requests in front may wait for something else
	}
	// Only a request that has to wait counts for the length of the queue, and this one may have got
	// its place by now.
	full := g.queued > g.MaxQueue && g.leave(tk)
	g.pool.mu.Unlock()
	if full {
		return place{}, errQueueFull
	}
	taken := false
	defer func() { // also when the thread is killed
		if !taken {
			g.withdraw(tk)
		}
	}()
	p, err := tk.promise.Await(t, max(time.Until(until), 0))
	switch {
	case err == nil:
		taken = true
		return p, nil
	case left(err):
		return place{}, err
	}
	return place{}, errNoPlace
}

// crowded reports whether an earlier request waits.
func (g *Group) crowded(tried []bool) bool {
	for m := range g.untried(tried) {
		if m.waiting.tickets.Len() > 0 {
			return true
		}
	}
	return false
}

// leave takes a ticket out of the queues, and reports whether it was in them.
func (g *Group) leave(tk *ticket) (was bool) {
	for m := range g.untried(tk.tried) {
		was = m.waiting.remove(tk, m) || was
	}
	if was {
		g.queued--
	}
	return was
}

// withdraw gives up waiting, and gives back a place that came meanwhile. It gives nothing to the
// requests behind: if they could have a place, serve would have passed over this one.
func (g *Group) withdraw(tk *ticket) {
	g.pool.mu.Lock()
	was := g.leave(tk)
	g.pool.mu.Unlock()
	if !was {
		p, _ := tk.promise.Value()
		g.release(p.member, p.kept)
	}
}

// release gives a place back, and with it a connection that may be used again, if there is one.
func (g *Group) release(m *member, k kept) {
	g.pool.mu.Lock()
	m.active--
	switch {
	case k.stream == nil:
	case len(m.idle) < g.MaxIdle:
		k.until = time.Now().Add(g.IdleTimeout)
		m.keep(k)
	default:
		k.close() // before another request has its place
	}
	m.serve()
	g.pool.mu.Unlock()
}

// take takes a place for a request on l, if there is one.
func (g *Group) take(l *loop.Loop, tried []bool, fresh bool) (place, bool) {
	m := g.choose(tried)
	if m == nil {
		return place{}, false
	}
	p := place{member: m}
	if len(m.idle) > 0 {
		k := m.idleFor(l, g.Newest)
		if fresh {
			k.close() // its process can accept the new one, and there may be no other process
		} else {
			p.kept = k
		}
	}
	for p.stream == nil && len(m.idle) > 0 && g.MaxConns > 0 &&
		m.active+len(m.idle) >= g.MaxConns {
		m.idle[0].close() // it has the place that the request wants
		m.idle = slices.Delete(m.idle, 0, 1)
	}
	m.active++
	m.chosen()
	return p, true
}

// choose returns the member whose turn it is, nil if none has a place: a primary one if possible,
// then a backup. Those that the checks have taken out follow only if the group has no others: the
// checks may be wrong. Last are those that did not work lately.
func (g *Group) choose(tried []bool) *member {
	if len(g.members) == 1 {
		m := g.members[0]
		if tried != nil && tried[0] || !g.room(m.peer) {
			return nil
		}
		return m
	}
	now := time.Now()
	for _, checked := range [2]bool{true, false} {
		working := false
		for _, backup := range [2]bool{false, true} {
			if m := g.best(func(m *member) bool {
				ok := m.backup == backup && m.works(now) && !(checked && m.out()) &&
					(tried == nil || !tried[m.index])
				working = working || ok
				return ok && g.room(m.peer)
			}); m != nil {
				return m
			}
		}
		if working {
			return nil
		}
	}
	return g.best(func(m *member) bool {
		return (tried == nil || !tried[m.index]) && g.room(m.peer)
	})
}

// room reports whether a request of the route may have another connection to p, whichever routes
// have the others.
func (g *Group) room(p *peer) bool { return g.MaxConns == 0 || p.active < g.MaxConns }

// best chooses among the members that are eligible, by turns or by the fewest connections for the
// weight. Of several with as few, it takes the one whose turn it is.
func (g *Group) best(eligible func(*member) bool) *member {
	var best *member
	total := 0
	for _, m := range g.members {
		if !eligible(m) {
			continue
		}
		total += m.weight
		m.current += m.weight
		if best == nil || g.before(m, best) {
			best = m
		}
	}
	if best != nil {
		best.current -= total
	}
	return best
}

func (g *Group) before(a, b *member) bool {
	if g.LeastConn {
		if x, y := a.active*b.weight, b.active*a.weight; x != y {
			return x < y
		}
	}
	return a.current > b.current
}
