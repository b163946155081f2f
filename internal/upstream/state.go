package upstream

import (
	"errors"
	"slices"

	"github.com/lwango/lwango/internal/base/metrics"
)

// state is what an operator has said of an address.
type state uint8

const (
	up    state = iota
	drain       // only requests of clients that come back to it go there, see Lease.StickyID
	down        // none does
)

// states are those of all addresses of which an operator has spoken, by names of the configuration,
// or by the addresses to which names resolve. The pool's lock guards them.
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
	if s.of == nil { // as a rule, and it is asked for each request
		return up
	}
	return s.ofServer(srv)
}

func (s *states) ofServer(srv *server) state { return max(s.of[srv.name], s.of[srv.address]) }

// SetState says what requests go to an address, for all groups of the pool: "up", "drain" or
// "down". name is an address as the configuration has it, or one to which such a name resolves. It
// lasts until the next SetState. Requests and tunnels that are under way there go on. SetState
// reports whether the group has the address, or its pool had a state for it. Any goroutine may call
// it.
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
			if srv.set != up {
				srv.cameUp()
			}
		case down:
			srv.closeIdleConns()
			srv.retire()
		}
		srv.set = p.states.state(srv)
	}
	return true
}

// States returns what SetState has said, by name.
func (g *Group) States() map[string]string {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	all := make(map[string]string)
	for name, s := range g.pool.states.of {
		all[name] = metrics.UpstreamStates[s]
	}
	return all
}

// Inherit sets the states that the process before has left, also of addresses to which no name has
// resolved yet. It is called before there are requests.
func (g *Group) Inherit(all map[string]string) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for name, to := range all {
		g.pool.states.set(name, to)
	}
}
