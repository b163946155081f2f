package upstream

import (
	"errors"
	"slices"

	"github.com/lwango/lwango/internal/base/metrics"
)

// state is an operator's setting for an address.
type state uint8

const (
	up    state = iota
	drain       // it gets only requests of clients that come back to it, see Lease.StickyID
	down        // none does
)

// states has the states that operators have set, by names of the configuration, or by addresses to
// which names resolve. The pool's lock guards them.
type states struct {
	of      map[string]state
	version int // grows with each change
}

var errDown = errors.New("all upstreams are drained or disabled")

// shown returns the state for a row of metrics; "": up.
func (s state) shown() string {
	if s == up {
		return ""
	}
	return metrics.UpstreamStates[s]
}

// set sets the state of a name. The caller holds the pool's lock, here and below.
func (s *states) set(name, to string) {
	i := slices.Index(metrics.UpstreamStates, to)
	switch {
	case i < 0: // a later version has handed it over
		return
	case state(i) == up:
		delete(s.of, name)
	case s.of == nil:
		s.of = map[string]state{name: state(i)}
	default:
		s.of[name] = state(i)
	}
	s.version++
}

// state returns the state of a server.
func (s *states) state(srv *server) state {
	if s.of == nil { // usually, and each request calls it
		return up
	}
	return s.ofServer(srv)
}

func (s *states) ofServer(srv *server) state { return max(s.of[srv.name], s.of[srv.address]) }

// SetState sets the state of an address for all groups of the pool: "up", "drain" or "down". name
// is an address in the configuration, or one to which a name there resolves. The state lasts until
// the next SetState. Requests and tunnels that are under way go on. SetState reports whether the
// group has the address, or its pool had a state for it. Any goroutine may call it.
func (g *Group) SetState(name, to string) bool {
	p := g.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	g.sync()
	if p.states.of[name] == up && !slices.ContainsFunc(g.configured, func(sc *serverConfig) bool {
		return sc.name == name
	}) &&
		!slices.ContainsFunc(g.all, func(srv *server) bool { return srv.address == name }) {
		return false
	}
	p.states.set(name, to)
	waiting := map[*Group]bool{g: true}
	for _, b := range p.backends {
		for _, g := range b.waiting.groups() {
			waiting[g] = true
		}
	}
	for g := range waiting {
		g.sync()
	}
	for _, srv := range g.all {
		switch p.states.state(srv) {
		case up:
			if srv.operatorState != up {
				srv.cameUp()
			}
		case down:
			srv.closeIdleConns()
			srv.retire()
		}
		srv.operatorState = p.states.state(srv)
	}
	return true
}

// States returns the states of SetState, by name.
func (g *Group) States() map[string]string {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	all := make(map[string]string)
	for name, s := range g.pool.states.of {
		all[name] = metrics.UpstreamStates[s]
	}
	return all
}

// Inherit sets the states that the old process has handed over, also of addresses to which no name
// has resolved yet. It is called before the first request.
func (g *Group) Inherit(all map[string]string) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for name, to := range all {
		g.pool.states.set(name, to)
	}
}
