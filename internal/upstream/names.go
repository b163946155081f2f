package upstream

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

const (
	// interval is for how long the addresses of a name are used where no name service has said it.
	// The others' time is bounded: one that asks all the time is a mistake, and so is one for ever.
	interval = 5 * time.Second
	leastTTL = time.Second
	mostTTL  = time.Hour
	// lookUpFor is for how long a look-up may take.
	lookUpFor = 10 * time.Second
	// maxAddresses is how many addresses of a name are used.
	maxAddresses = 256
)

// host is a name that leads to addresses. Each of them is an upstream of every group that has the
// name. The pool's lock guards it.
type host struct {
	pool *Pool
	name string

	addresses []netip.Addr
	version   int                     // grows as addresses changes
	until     time.Time               // when they are to be looked up again
	err       error                   // of the last look-up
	pending   *loop.Promise[struct{}] // settled at the end of a look-up; nil: there is none
}

// host returns that of a name. The caller holds the lock.
func (p *Pool) host(name string) *host {
	h := p.hosts[name]
	if h == nil {
		if p.hosts == nil {
			p.hosts = make(map[string]*host)
		}
		h = &host{pool: p, name: name}
		p.hosts[name] = h
	}
	return h
}

// lookUp asks for the addresses. It may wait for other machines, so no thread calls it; and it is a
// goroutine of its own rather than the loop's worker, since other loops wait for it, too. The caller
// has set pending.
func (h *host) lookUp() {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpFor)
	defer cancel()
	all, ttl, err := resolve(ctx, h.name)
	h.pool.mu.Lock()
	if h.err = err; err == nil {
		h.lead(all[:min(len(all), maxAddresses)])
	} else if ttl = interval; len(h.addresses) == 0 {
		ttl = leastTTL
	}
	h.until = time.Now().Add(ttl)
	done := h.pending
	h.pending = nil
	h.pool.mu.Unlock()
	done.Resolve(struct{}{})
}

// lead notes where the name leads. Connections that are kept elsewhere are closed.
func (h *host) lead(all []netip.Addr) {
	slices.SortFunc(all, netip.Addr.Compare) // services turn them around with each answer
	if all = slices.Compact(all); slices.Equal(all, h.addresses) {
		return
	}
	h.addresses = all
	h.version++
	for _, p := range h.pool.peers {
		if p.host != h {
			continue
		}
		if at, err := netip.ParseAddrPort(p.address); err != nil || !slices.Contains(all, at.Addr()) {
			p.leave()
		} else {
			p.gone = false
		}
	}
}

// find looks the names of the group up that are due, for a request on t that may take as long as
// limit for it. Of the requests that come meanwhile, those for which there are addresses go on with
// these. So a slow name service has one question to answer at a time, and if none answers, the host
// may still be where it was.
func (g *Group) find(t *loop.Thread, limit time.Duration) error {
	if !g.named {
		return nil
	}
	until := time.Now().Add(limit)
	var due []*loop.Promise[struct{}]
	g.pool.mu.Lock()
	g.sync()
	for _, p := range g.parts {
		if p.host == nil || p.host.until.After(time.Now()) {
			continue
		}
		begun := p.host.pending == nil
		if begun {
			p.host.pending = new(loop.Promise[struct{}])
			go p.host.lookUp()
		}
		if begun || len(g.members) == 0 {
			due = append(due, p.host.pending)
		}
	}
	some := len(g.members) > 0
	g.pool.mu.Unlock()
	if some && due == nil {
		return nil
	}
	for _, pending := range due {
		_, err := pending.Await(t, max(time.Until(until), 0))
		if err != nil && left(err) {
			return err
		}
	}
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	if len(g.members) > 0 {
		return nil
	}
	for _, p := range g.parts {
		if p.host.err != nil {
			return p.host.err
		}
	}
	return loop.ErrDeadlineExceeded
}

// stale has the name looked up again that has led to p: its addresses do not work.
func (p *peer) stale() {
	p.pool.mu.Lock()
	p.host.until = time.Time{}
	p.pool.mu.Unlock()
}

// sync gives the group a member for each address of its names, as they are now. The caller holds the
// pool's lock.
func (g *Group) sync() {
	if !g.named || !slices.ContainsFunc(g.parts, (*part).moved) {
		return
	}
	before := g.members
	g.members = nil
	for _, p := range g.parts {
		if p.host == nil {
			g.join(p, p.at, before)
			continue
		}
		p.seen = p.host.version
		for _, a := range p.host.addresses {
			at := p.at
			at.address = netip.AddrPortFrom(a, p.port).String()
			g.join(p, at, before)
		}
	}
	var waiting []*ticket
	for e := range g.waiting.InTurn() {
		waiting = append(waiting, e.Value)
	}
	for _, tk := range waiting {
		for _, m := range before {
			if !slices.Contains(g.members, m) {
				tk.leave(m.peer)
			}
		}
		for _, m := range g.members {
			if !slices.Contains(before, m) && !slices.Contains(tk.tried, m.peer) {
				tk.join(m.peer)
			}
		}
		if len(tk.at) == 0 { // it has tried all that are left
			tk.withdraw()
			tk.promise.Reject(errNowhere)
		}
	}
	for _, m := range g.members {
		if !slices.Contains(before, m) {
			m.serve()
		}
	}
}

func (p *part) moved() bool { return p.host != nil && p.seen != p.host.version }

// join adds the member at an endpoint, which is the one of before if that was there.
func (g *Group) join(p *part, at endpoint, before []*member) {
	for _, m := range before {
		if m.part == p && m.endpoint == at && !m.gone {
			g.members = append(g.members, m)
			return
		}
	}
	g.members = append(g.members, g.member(p, at))
}

var errNowhere = errors.New("the name has no address")
