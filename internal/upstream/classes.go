package upstream

import (
	"slices"
	"time"
)

// class is the servers of one level that have the same weight. They take turns, and so do the
// classes of a level. With hundreds of servers, a look at each of them is most of what a request
// costs under the pool's lock; so a request looks at each class, of which there are a few, and at a
// server or two.
type class struct {
	servers       []*server
	level, weight int

	turn    int // of servers
	current int // of smooth weighted round-robin among the classes of the level

	// In least: the server that it would be, nil if none is eligible, and whose turn it is then.
	best  *server
	after int
}

// share is the weight of all servers together.
func (c *class) share() int { return c.weight * len(c.servers) }

// few is how many servers of unequal weights a request looks at one by one: that costs as little,
// and their order is the one that nginx has.
const few = 16

// manyClasses are so many that to look at each server costs as little.
const manyClasses = 16

// classify makes the classes of the servers, by level. Those that there were go on where they are.
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

// steady reports whether no weight changes now.
func (g *Group) steady(now time.Time) bool {
	return g.SlowStart == 0 || now.Sub(g.pool.upSince) >= g.SlowStart
}

// cameUp notes that requests may go to the address, which has not worked until now, or is new. The
// caller holds the pool's lock.
func (b *backend) cameUp() {
	b.upSince = time.Now()
	b.pool.upSince = b.upSince
}

// inTurn returns the eligible server whose turn it is. The turns of others pass, so those that are
// left have theirs as often as their weights say, and one that works again has no arrears. After n
// turns that have passed it returns nil.
func inTurn(classes []class, n int, eligible func(*server) bool) *server {
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

// least returns the eligible server that has the fewest connections for its weight; of several the
// one whose turn it is. nil: none is eligible.
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
	// One of which no server is eligible has no arrears when one is again.
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
