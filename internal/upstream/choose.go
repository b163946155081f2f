package upstream

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// Balance is how an address is chosen for a request, among those that work and have a slot.
type Balance uint8

const (
	// RoundRobin makes the addresses take turns, in proportion to their weights.
	RoundRobin Balance = iota
	// LeastConn takes the address that has the fewest connections for its weight.
	LeastConn
	// Random takes the better one, by LeastConn, of two that it draws by weight. So several proxies in
	// front of the same addresses, each of which only sees its own connections, do not all choose the
	// same one.
	Random
	// Hash takes the address for Lease.Key. If addresses come or go, only their keys move. Requests
	// without a key take turns.
	Hash
)

// HashOf returns the hash of a key, by FNV-1a. It is the same in all processes.
func HashOf(key string) uint64 { return AppendHash(0, key) }

// AppendHash returns the hash of a key whose beginning has the hash h; 0: the beginning is empty.
func AppendHash[T string | []byte](h uint64, key T) uint64 {
	if h == 0 {
		h = 14695981039346656037
	}
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}

// choose returns the server whose turn it is, or nil if none has a slot: a primary one if possible,
// then a backup. Servers that fail their checks follow only if the group has no others, since the
// checks may be wrong. The last ones are those that did not work lately.
func (l *Lease) choose() *server {
	g := l.group
	if l.StickyID != 0 {
		if srv := l.stickyServer(loop.Now()); srv != nil {
			if !l.room(srv.backend) { // the client's session is only there, so the request waits
				return nil
			}
			return srv
		}
	}
	if len(g.servers) == 1 {
		srv := g.servers[0]
		if slices.Contains(l.tried, srv.backend) || !l.room(srv.backend) ||
			g.Circuit != nil && srv.circuit.open(time.Now()) {
			return nil
		}
		return srv
	}
	now := time.Now()
	for _, checked := range [2]bool{true, false} {
		working := false
		for level := 0; level <= g.levels; level++ {
			if srv := l.best(level, now, func(srv *server) bool {
				ok := srv.level == level && srv.works(now) && !srv.circuit.open(now) &&
					!(checked && srv.failsChecks()) && !slices.Contains(l.tried, srv.backend)
				working = working || ok
				return ok && l.room(srv.backend)
			}); srv != nil {
				return srv
			}
		}
		if working {
			return nil
		}
	}
	return l.best(anyLevel, now, func(srv *server) bool {
		return !slices.Contains(l.tried, srv.backend) && !srv.circuit.open(now) && l.room(srv.backend)
	})
}

// anyLevel makes servers of all levels eligible.
const anyLevel = -1

// best chooses among the eligible servers, which are of one level. Of several with equally few
// connections, it takes the one whose turn it is. If it returns nil, it has called eligible for
// all.
func (l *Lease) best(level int, now time.Time, eligible func(*server) bool) *server {
	g := l.group
	switch {
	case g.Balance == Random:
		return g.random(now, eligible)
	case g.Balance == Hash && l.Key != 0:
		return g.rendezvous(l.Key, eligible)
	}
	if classes, n := g.classesAt(level); (len(classes) == 1 ||
		n > fewServers && len(classes) <= manyClasses) && g.weightsConstant(now) {
		if g.Balance == LeastConn {
			return least(classes, eligible)
		}
		if srv := nextInTurn(classes, n, eligible); srv != nil || len(classes) == 1 {
			return srv
		}
	}
	var best *server
	total := 0
	for _, srv := range g.servers {
		if !eligible(srv) {
			continue
		}
		w := g.weight(srv, now)
		total += w
		srv.current += w
		if best == nil || g.before(srv, best, now) {
			best = srv
		}
	}
	if best != nil {
		best.current -= total
	}
	return best
}

func (g *Group) before(a, b *server, now time.Time) bool {
	if g.Balance == LeastConn {
		if x, y := g.load(a, b, now), g.load(b, a, now); x != y {
			return x < y
		}
	}
	return a.current > b.current
}

// load returns a number to be compared with load(b, a): the connections of a in relation to its
// weight.
func (g *Group) load(a, b *server, now time.Time) int { return a.active * g.weight(b, now) }

// weight returns the weight that a server has now. With SlowStart it is in hundredths.
func (g *Group) weight(srv *server, now time.Time) int {
	if g.SlowStart == 0 {
		return srv.weight
	}
	if age := now.Sub(srv.upSince); age < g.SlowStart {
		return max(int(float64(srv.weight)*100*(float64(age)/float64(g.SlowStart))), 1)
	}
	return srv.weight * 100
}

// random draws two servers, and takes the one with fewer connections in relation to its weight.
func (g *Group) random(now time.Time, eligible func(*server) bool) *server {
	if i := g.draw(-1, now, eligible); i >= 0 {
		if j := g.draw(i, now, eligible); j >= 0 {
			return g.lessLoaded(g.servers[i], g.servers[j], now)
		}
	}
	all := g.drawn[:0]
	for _, srv := range g.servers {
		if eligible(srv) {
			all = append(all, srv)
		}
	}
	g.drawn = all
	if len(all) == 0 {
		return nil
	}
	draw := func() *server {
		total := 0
		for _, srv := range all {
			srv.current = g.weight(srv, now)
			total += srv.current
		}
		at, i := rand.IntN(total), 0
		for at >= all[i].current {
			at -= all[i].current
			i++
		}
		srv := all[i]
		all = slices.Delete(all, i, i+1)
		return srv
	}
	a := draw()
	if len(all) == 0 {
		return a
	}
	return g.lessLoaded(a, draw(), now)
}

// lessLoaded returns the server with fewer connections in relation to its weight, or a if both have
// as many.
func (g *Group) lessLoaded(a, b *server, now time.Time) *server {
	if g.load(b, a, now) < g.load(a, b, now) {
		return b
	}
	return a
}

// draw draws one of the eligible servers by weight, and returns its index. It does not draw the one
// at except, unless that is negative. -1: a few draws have found none, or weights change with time.
func (g *Group) draw(except int, now time.Time, eligible func(*server) bool) int {
	if len(g.sums) == 0 || !g.weightsConstant(now) {
		return -1
	}
	total, hole, width := g.sums[len(g.sums)-1], 0, 0 // a hole where the weight of except is
	if except >= 0 {
		if except > 0 {
			hole = g.sums[except-1]
		}
		width = g.sums[except] - hole
	}
	if total == width {
		return -1
	}
	for range min(8, len(g.servers)) { // to walk through a few servers costs less than to draw in vain
		at := rand.IntN(total - width)
		if at >= hole {
			at += width
		}
		if i, _ := slices.BinarySearch(g.sums, at+1); eligible(g.servers[i]) {
			return i
		}
	}
	return -1
}

// rendezvous chooses by rendezvous hashing: each server has a score for the key, and the greatest
// one wins. So if a server does not work or has no slot, its keys are divided among all others. The
// logarithm makes the chance of each server proportional to its weight.
func (g *Group) rendezvous(key uint64, eligible func(*server) bool) (best *server) {
	greatest, most := 0.0, 0.0 // number and score of best
	for _, srv := range g.servers {
		n := (float64(mix(key^srv.hash)>>12) + 0.5) / (1 << 52) // more than 0, less than 1
		if best != nil && n <= greatest && srv.weight <= best.weight {
			continue // most servers need no logarithm
		}
		if score := float64(srv.weight) / -math.Log(n); (best == nil || score > most) && eligible(srv) {
			best, greatest, most = srv, n, score
		}
	}
	return best
}

// Fraction maps a hash to a number from 0 to less than 1. Many keys are distributed evenly.
func Fraction(hash uint64) float64 { return float64(mix(hash)>>11) / (1 << 53) }

// mix spreads the bits of a number over all of it (the end of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
