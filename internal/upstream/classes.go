package upstream

import (
	"slices"
	"time"
)

// class has the servers of one level that have the same weight. They take turns, and so do the
// classes of a level. With hundreds of servers, to look at each server would be most of a request's
// cost under the pool's lock; so a request looks at each class, of which there are a few, and at a
// server or two.
type class struct {
	servers       []*server
	level, weight int

	turn    int // of servers
	current int // of smooth weighted round-robin among the classes of the level

	// For least: the class's best server, or nil, and whose turn follows.
	best  *server
	after int
}

// share returns the sum of the servers' weights.
func (c *class) share() int { return c.weight * len(c.servers) }

// fewServers is up to how many servers of unequal weights a request looks at one by one: that costs
// as little as classes, and their order is that of nginx.
const fewServers = 16

// manyClasses is from how many classes on it costs as little to look at each server.
const manyClasses = 16

// classify makes the classes of the servers, by level. Classes from before keep their turns.
func (g *Group) classify() {
	before := g.classes
	g.classes = nil
	find := func(all []class, srv *server) int {
		return slices.IndexFunc(all, func(c class) bool {
			return c.level == srv.level && c.weight == srv.weight
		})
	}
	for _, srv := range g.servers {
		i := find(g.classes, srv)
		if i < 0 {
			i = len(g.classes)
			c := class{level: srv.level, weight: srv.weight}
			if j := find(before, srv); j >= 0 {
				c.turn = before[j].turn
			}
			g.classes = append(g.classes, c)
		}
		g.classes[i].servers = append(g.classes[i].servers, srv)
	}
	slices.SortStableFunc(g.classes, func(a, b class) int { return a.level - b.level })
	for i := range g.classes {
		g.classes[i].turn %= len(g.classes[i].servers)
	}
}

// classesAt returns the classes of a level, and how many servers they have.
func (g *Group) classesAt(level int) (all []class, n int) {
	from := 0
	for from < len(g.classes) && g.classes[from].level < level {
		from++
	}
	to := from
	for ; to < len(g.classes) && g.classes[to].level == level; to++ {
		n += len(g.classes[to].servers)
	}
	return g.classes[from:to], n
}

// weightsConstant reports whether no weight changes now.
func (g *Group) weightsConstant(now time.Time) bool {
	return g.SlowStart == 0 || now.Sub(g.pool.upSince) >= g.SlowStart
}

// cameUp notes that requests may go to an address that did not work before, or is new. The caller
// holds the pool's lock.
func (b *backend) cameUp() {
	b.upSince = time.Now()
	b.pool.upSince = b.upSince
}

// nextInTurn returns the eligible server whose turn it is. It lets the turns of others pass, so the
// remaining ones have theirs in proportion to their weights, and a server that works again has no
// arrears. After n passed turns it returns nil.
func nextInTurn(classes []class, n int, eligible func(*server) bool) *server {
	for range n {
		c, total := &classes[0], 0
		if len(classes) > 1 {
			for i := range classes {
				other := &classes[i]
				total += other.share()
				if other.current += other.share(); other.current > c.current {
					c = other
				}
			}
			c.current -= total
		}
		srv := c.servers[c.turn]
		if c.turn++; c.turn == len(c.servers) {
			c.turn = 0
		}
		if eligible(srv) {
			return srv
		}
	}
	return nil
}

// least returns the eligible server with the fewest connections in relation to its weight, of
// several the one whose turn it is, or nil.
func least(classes []class, eligible func(*server) bool) *server {
	var its *class
	for i := range classes {
		c := &classes[i]
		if c.best, c.after = c.least(eligible); c.best == nil {
			continue
		}
		if its != nil {
			x, y := c.best.active*its.weight, its.best.active*c.weight
			if x > y || x == y && c.current+c.share() <= its.current+its.share() {
				continue
			}
		}
		its = c
	}
	if its == nil {
		return nil
	}
	// A class without an eligible server has no arrears later.
	best, total := its.best, 0
	for i := range classes {
		if c := &classes[i]; c.best != nil {
			total += c.share()
			c.current += c.share()
			c.best = nil
		}
	}
	its.current -= total
	its.turn = its.after
	return best
}

// least returns the eligible server with the fewest connections, and whose turn it is after that
// one's.
func (c *class) least(eligible func(*server) bool) (best *server, after int) {
	n := len(c.servers)
	for i := range n {
		j := c.turn + i
		if j >= n {
			j -= n
		}
		srv := c.servers[j]
		if best != nil && srv.active >= best.active || !eligible(srv) {
			continue
		}
		best, after = srv, (j+1)%n
		if srv.active == 0 {
			break
		}
	}
	return best, after
}
