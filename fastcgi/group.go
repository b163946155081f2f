package fastcgi

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

var (
	errQueueFull = errors.New("all connections are taken, and the queue is full")
	errNoPlace   = errors.New("no connection has become free in time")
)

// group is the upstreams of a route, with its limits. All methods but acquire, which waits on a thread, and release,
// which takes the lock, are for whoever has the pool's lock.
type group struct {
	pool        *pool
	leastConn   bool
	maxConns    int // to each, idle ones and those of other routes included; 0: any number
	maxQueue    int
	maxIdle     int // at each
	idleTimeout time.Duration

	upstreams []*upstream // does not change once the route is built

	queued int // of our requests, those that wait for a place
}

// upstream is an address as one route has it.
type upstream struct {
	*peer
	name   string // as the configuration has it
	weight int
	backup bool
	index  int // in its group

	current int // of smooth weighted round-robin
}

// place is the right to have a connection to an upstream: one that was kept, or else a new one.
type place struct {
	*upstream
	fd int // -1: to be made
}

// ticket is somebody who waits for a place, with all of the group's upstreams that were not tried.
type ticket struct {
	promise loop.Promise[place]
	group   *group
	tried   []bool
	fresh   bool
}

func newGroup(s *Settings, p *pool) *group {
	g := &group{pool: p, leastConn: s.Balance == "least_conn", maxConns: s.MaxConns, maxQueue: s.MaxQueue,
		idleTimeout: s.IdleTimeout}
	if s.KeepConn {
		g.maxIdle = s.MaxIdle
	}
	return g
}

func (g *group) add(u *upstream, e endpoint) {
	u.peer, u.index = g.pool.peer(e), len(g.upstreams)
	g.upstreams = append(g.upstreams, u)
}

// untried is the upstreams that were not.
func (g *group) untried(tried []bool) iter.Seq[*upstream] {
	return func(yield func(*upstream) bool) {
		for _, u := range g.upstreams {
			if (tried == nil || !tried[u.index]) && !yield(u) {
				return
			}
		}
	}
}

// acquire returns a place with an upstream that was not tried, waiting for one up to the given time. fresh: a kept
// connection will not do. Whoever has it calls release.
func (g *group) acquire(t *loop.Thread, until time.Time, tried []bool, fresh bool) (place, error) {
	g.pool.mu.Lock()
	if !g.crowded(tried) {
		if p, ok := g.take(tried, fresh); ok {
			g.pool.mu.Unlock()
			return p, nil
		}
	}
	tk := &ticket{group: g, tried: tried, fresh: fresh}
	g.queued++
	for u := range g.untried(tried) {
		u.waiting = append(u.waiting, tk)
	}
	for u := range g.untried(tried) {
		u.serve() // those in front may wait for something else
	}
	full := g.queued > g.maxQueue && g.leave(tk) // it is no place in the queue that counts where there is one to be had
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

// crowded reports whether somebody waits who was here before.
func (g *group) crowded(tried []bool) bool {
	for u := range g.untried(tried) {
		if len(u.waiting) > 0 {
			return true
		}
	}
	return false
}

// leave takes a ticket out of the queues, and reports whether it was in them.
func (g *group) leave(tk *ticket) (was bool) {
	for u := range g.untried(tk.tried) {
		if i := slices.Index(u.waiting, tk); i >= 0 {
			u.waiting = slices.Delete(u.waiting, i, i+1)
			was = true
		}
	}
	if was {
		g.queued--
	}
	return was
}

// withdraw gives up waiting, and gives back the place that was got meanwhile.
func (g *group) withdraw(tk *ticket) {
	g.pool.mu.Lock()
	was := g.leave(tk)
	if was {
		for u := range g.untried(tk.tried) {
			u.serve() // it may have held up others
		}
	}
	g.pool.mu.Unlock()
	if !was {
		p, _ := tk.promise.Value()
		g.release(p.upstream, p.fd)
	}
}

// release gives a place back, and with it a connection that may be used again, or -1.
func (g *group) release(u *upstream, fd int) {
	g.pool.mu.Lock()
	u.active--
	drop := fd
	if fd >= 0 && len(u.idle) < g.maxIdle {
		drop = -1
		u.keep(fd, time.Now().Add(g.idleTimeout))
	}
	u.serve()
	g.pool.mu.Unlock()
	if drop >= 0 {
		sysio.Close(drop)
	}
}

// take takes a place, if there is one.
func (g *group) take(tried []bool, fresh bool) (place, bool) {
	u := g.choose(tried)
	if u == nil {
		return place{}, false
	}
	p := place{u, -1}
	if len(u.idle) > 0 {
		// The oldest: a script that has called fastcgi_finish_request runs on behind its answer, most likely the latest.
		first := u.idle[0].fd
		u.idle = slices.Delete(u.idle, 0, 1)
		if fresh {
			sysio.Close(first) // its process is one that can accept the new one, and there may be no other
		} else {
			p.fd = first
		}
	}
	for p.fd < 0 && len(u.idle) > 0 && g.maxConns > 0 && u.active+len(u.idle) >= g.maxConns {
		sysio.Close(u.idle[0].fd) // it has the place that is wanted
		u.idle = slices.Delete(u.idle, 0, 1)
	}
	u.active++
	u.chosen()
	return p, true
}

// choose returns the upstream whose turn it is, nil if none has a place: a primary one if possible, then a backup, and
// those that did not work lately only if they are all there is.
func (g *group) choose(tried []bool) *upstream {
	if len(g.upstreams) == 1 {
		u := g.upstreams[0]
		if tried != nil && tried[0] || !g.room(u.peer) {
			return nil
		}
		return u
	}
	now := time.Now()
	working := false
	for _, backup := range [2]bool{false, true} {
		if u := g.best(func(u *upstream) bool {
			ok := u.backup == backup && u.works(now) && (tried == nil || !tried[u.index])
			working = working || ok
			return ok && g.room(u.peer)
		}); u != nil {
			return u
		}
	}
	if working {
		return nil
	}
	return g.best(func(u *upstream) bool { return (tried == nil || !tried[u.index]) && g.room(u.peer) })
}

// room reports whether a request of ours may have another connection to p, whoever has the others.
func (g *group) room(p *peer) bool { return g.maxConns == 0 || p.active < g.maxConns }

// best chooses among those that are eligible, as round-robin or by the fewest connections for its weight; of several
// with as few, it is the next one's turn.
func (g *group) best(eligible func(*upstream) bool) *upstream {
	var best *upstream
	total := 0
	for _, u := range g.upstreams {
		if !eligible(u) {
			continue
		}
		total += u.weight
		u.current += u.weight
		if best == nil || g.before(u, best) {
			best = u
		}
	}
	if best != nil {
		best.current -= total
	}
	return best
}

func (g *group) before(u, v *upstream) bool {
	if g.leastConn {
		if a, b := u.active*v.weight, v.active*u.weight; a != b {
			return a < b
		}
	}
	return u.current > v.current
}
