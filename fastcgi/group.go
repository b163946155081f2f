package fastcgi

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

// avoidFor is how long an upstream to which nobody could connect is passed over, as long as there are others.
const avoidFor = 10 * time.Second

var (
	errQueueFull = errors.New("all connections are taken, and the queue is full")
	errNoPlace   = errors.New("no connection has become free in time")
)

// group is the upstreams of a route, for all loops together: what a connection takes is a process on the other side,
// of which there are as many as there are whatever the number of our loops. All methods are for any goroutine, but
// acquire, which waits on a thread.
type group struct {
	leastConn   bool
	maxConns    int // of each, idle ones included; 0: any number
	maxQueue    int
	maxIdle     int // of each
	idleTimeout time.Duration

	upstreams []*upstream // does not change once the route is built

	mu      sync.Mutex
	queue   []*ticket // in the order of their coming
	closing bool      // the timer runs that closes what is idle for too long
}

// upstream is one address.
type upstream struct {
	name             string // as the configuration has it
	network, address string
	weight           int
	backup           bool
	index            int // in its group

	// Guarded by the group's lock.
	active  int       // connections in use, and those that are being made
	idle    []idle    // the last one is the latest
	avoid   time.Time // until then, where there are others
	current int       // of smooth weighted round-robin
}

// idle is a connection that is kept. No loop knows of it.
type idle struct {
	fd    int
	since time.Time
}

// place is the right to have a connection to an upstream: one that was kept, or else a new one.
type place struct {
	*upstream
	fd int // -1: to be made
}

// ticket is somebody who waits for a place.
type ticket struct {
	promise loop.Promise[place]
	tried   []bool
	fresh   bool
}

func newGroup(s *Settings) *group {
	g := &group{leastConn: s.Balance == "least_conn", maxConns: s.MaxConns, maxQueue: s.MaxQueue,
		idleTimeout: s.IdleTimeout}
	if s.KeepConn {
		g.maxIdle = s.MaxIdle
	}
	return g
}

func (g *group) add(u *upstream) {
	u.index = len(g.upstreams)
	g.upstreams = append(g.upstreams, u)
}

// left reports whether there are upstreams that were not tried.
func (g *group) left(tried []bool) bool {
	return tried == nil || slices.Contains(tried, false)
}

// acquire returns a place with an upstream that was not tried, waiting for one up to the given time. fresh: a kept
// connection will not do. Whoever has it calls release.
func (g *group) acquire(t *loop.Thread, until time.Time, tried []bool, fresh bool) (place, error) {
	g.mu.Lock()
	if len(g.queue) == 0 {
		if p, ok := g.take(tried, fresh); ok {
			g.mu.Unlock()
			return p, nil
		}
	}
	if len(g.queue) >= g.maxQueue {
		g.mu.Unlock()
		return place{}, errQueueFull
	}
	tk := &ticket{tried: tried, fresh: fresh}
	g.queue = append(g.queue, tk)
	g.serve() // those in front may have tried what is free
	g.mu.Unlock()
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
	case errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled):
		return place{}, err
	}
	return place{}, errNoPlace
}

// withdraw takes a ticket out of the queue, or gives back the place that it has got meanwhile.
func (g *group) withdraw(tk *ticket) {
	g.mu.Lock()
	i := slices.Index(g.queue, tk)
	if i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 {
		p, _ := tk.promise.Value()
		g.release(p.upstream, p.fd)
	}
}

// release gives a place back, and with it a connection that may be used again, or -1.
func (g *group) release(u *upstream, fd int) {
	g.mu.Lock()
	u.active--
	drop := fd
	if fd >= 0 && len(u.idle) < g.maxIdle {
		drop = -1
		u.idle = append(u.idle, idle{fd, time.Now()})
		g.closeLater()
	}
	g.serve()
	g.mu.Unlock()
	if drop >= 0 {
		sysio.Close(drop)
	}
}

// serve gives places to those who wait.
func (g *group) serve() {
	for i := 0; i < len(g.queue); {
		tk := g.queue[i]
		p, ok := g.take(tk.tried, tk.fresh)
		if !ok {
			if tk.tried == nil {
				return // there is none for anybody
			}
			i++
			continue
		}
		g.queue = slices.Delete(g.queue, i, i+1)
		tk.promise.Resolve(p)
	}
}

// take takes a place, if there is one.
func (g *group) take(tried []bool, fresh bool) (place, bool) {
	u := g.choose(tried)
	if u == nil {
		return place{}, false
	}
	p := place{u, -1}
	n := len(u.idle)
	switch {
	case n > 0 && !fresh:
		p.fd = u.idle[n-1].fd // the latest: the others may time out
		u.idle = u.idle[:n-1]
	case n > 0 && g.maxConns > 0 && u.active+n >= g.maxConns:
		sysio.Close(u.idle[0].fd) // it has the place that is wanted
		u.idle = slices.Delete(u.idle, 0, 1)
	}
	u.active++
	return p, true
}

// choose returns the upstream whose turn it is, nil if none has a place: a primary one if possible, then a backup, and
// those that could not be reached lately only if they are all there is.
func (g *group) choose(tried []bool) *upstream {
	if len(g.upstreams) == 1 {
		u := g.upstreams[0]
		if tried != nil && tried[0] || !g.room(u) {
			return nil
		}
		return u
	}
	now := time.Now()
	reachable := false
	for _, backup := range [2]bool{false, true} {
		if u := g.best(func(u *upstream) bool {
			ok := u.backup == backup && u.avoid.Before(now) && (tried == nil || !tried[u.index])
			reachable = reachable || ok
			return ok && g.room(u)
		}); u != nil {
			return u
		}
	}
	if reachable {
		return nil
	}
	return g.best(func(u *upstream) bool { return (tried == nil || !tried[u.index]) && g.room(u) })
}

func (g *group) room(u *upstream) bool { return g.maxConns == 0 || u.active < g.maxConns }

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

// failed notes that nobody could connect to u.
func (g *group) failed(u *upstream) {
	g.mu.Lock()
	u.avoid = time.Now().Add(avoidFor)
	g.mu.Unlock()
}

// reached notes that somebody could.
func (g *group) reached(u *upstream) {
	g.mu.Lock()
	u.avoid = time.Time{}
	g.mu.Unlock()
}

// closeLater has connections closed that nobody takes. Each of them holds a process of PHP-FPM.
func (g *group) closeLater() {
	if !g.closing {
		g.closing = true
		time.AfterFunc(g.idleTimeout, g.closeIdle)
	}
}

func (g *group) closeIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	next := g.idleTimeout
	left := false
	for _, u := range g.upstreams {
		n := 0
		for n < len(u.idle) && now.Sub(u.idle[n].since) >= g.idleTimeout {
			sysio.Close(u.idle[n].fd)
			n++
		}
		u.idle = slices.Delete(u.idle, 0, n)
		if len(u.idle) > 0 {
			left = true
			next = min(next, g.idleTimeout-now.Sub(u.idle[0].since))
		}
	}
	if g.closing = left; left {
		time.AfterFunc(next, g.closeIdle)
	}
}
