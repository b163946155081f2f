package upstream

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

const (
	// defaultTTL is how long the addresses of a name are used if no DNS server has named a TTL. TTLs
	// are bounded: neither 0 nor an endless one can be right.
	defaultTTL = 5 * time.Second
	leastTTL   = time.Second
	mostTTL    = time.Hour
	// lookUpTimeout is how long a look-up may take.
	lookUpTimeout = 10 * time.Second
	// maxAddresses is how many addresses of a name are used.
	maxAddresses = 256
)

// dnsName is the name of a host or service, with its resolved addresses. Each of them is a backend
// of every group that has the name. The pool's lock guards it.
type dnsName struct {
	pool *Pool
	name string

	addresses   []resolvedAddr
	counted     map[backendKey]counted  // of backends that were forgotten, by serverConfig.key
	version     int                     // grows as addresses changes
	until       time.Time               // when they are to be looked up again
	lookUpBegan time.Time               // when the last look-up began
	err         error                   // of the last look-up
	targetErr   error                   // of a service's targets, which keep their addresses
	targetErrs  int                     // how often targetErr was set
	pending     *loop.Promise[struct{}] // settled at the end of a look-up; nil: there is none
	ended       chan struct{}           // closed then, for goroutines
}

// dnsName returns the dnsName for a name. The caller holds the lock.
func (p *Pool) dnsName(name string) *dnsName {
	d := p.dnsNames[name]
	if d == nil {
		if p.dnsNames == nil {
			p.dnsNames = make(map[string]*dnsName)
		}
		d = &dnsName{pool: p, name: name}
		p.dnsNames[name] = d
	}
	return d
}

// lookUp looks up the addresses. It may wait for other machines, so no thread calls it; and it has
// a goroutine of its own instead of a loop's worker, since other loops wait for it, too.
func (d *dnsName) lookUp() {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
	defer cancel()
	d.pool.mu.Lock()
	before := d.addresses
	d.pool.mu.Unlock()
	all, ttl, targetErr, err := d.resolve(ctx, before)
	d.pool.mu.Lock()
	if d.err = err; err == nil {
		if targetErr != nil && d.targetErr == nil {
			d.targetErrs++
		}
		d.targetErr = targetErr
		d.update(all)
	} else if ttl = defaultTTL; len(d.addresses) == 0 {
		ttl = leastTTL
	}
	d.until = time.Now().Add(ttl)
	done := d.pending
	d.pending = nil
	close(d.ended)
	d.pool.mu.Unlock()
	done.Resolve(struct{}{})
}

// resolve looks up the addresses of a host or a service, in the order of resolvedAddr.compare.
// targetErr is as with resolveService.
func (d *dnsName) resolve(
	ctx context.Context, before []resolvedAddr,
) (all []resolvedAddr, ttl time.Duration, targetErr, err error) {
	if ServiceOf(d.name) != "" {
		return resolveService(ctx, d.name, before)
	}
	addrs, ttl, err := resolve(ctx, d.name)
	for _, a := range addrs {
		all = append(all, resolvedAddr{addr: a})
	}
	return all, ttl, nil, err
}

// begin begins a look-up, if there is none. The caller holds the pool's lock.
func (d *dnsName) begin() *loop.Promise[struct{}] {
	if d.pending == nil {
		d.pending, d.ended = new(loop.Promise[struct{}]), make(chan struct{})
		d.lookUpBegan = time.Now()
		go d.lookUp()
	}
	return d.pending
}

// update sets the addresses. It closes idle connections to earlier addresses, and serves requests
// that wait for these at the new ones. all is sorted. The caller holds the pool's lock.
func (d *dnsName) update(all []resolvedAddr) {
	if slices.Equal(all, d.addresses) {
		return
	}
	d.addresses = all
	d.version++
	waiting := make(map[*Group]bool)
	for _, b := range d.pool.backends {
		if b.dnsName != d {
			continue
		}
		for _, g := range b.waiting.groups() {
			waiting[g] = true
		}
		if at, err := netip.ParseAddrPort(b.address); err != nil || !d.resolvesTo(at) {
			b.remove()
		} else {
			b.removed = false
		}
	}
	for g := range waiting {
		g.sync()
	}
}

// resolvesTo reports whether an address is one of the name's.
func (d *dnsName) resolvesTo(to netip.AddrPort) bool {
	i, found := slices.BinarySearchFunc(d.addresses, to.Addr(),
		func(r resolvedAddr, a netip.Addr) int { return r.addr.Compare(a) })
	for ; found && i < len(d.addresses) && d.addresses[i].addr == to.Addr(); i++ {
		if port := d.addresses[i].port; port == 0 || port == to.Port() {
			return true
		}
	}
	return false
}

// lookUpNames begins look-ups of the group's names that are due. A request goes on meanwhile with
// the present addresses, if there are any: so a slow DNS server delays no request and has one query
// at a time, and if it does not answer, the host may still be where it was. Without addresses, or
// with noneWorks (none of them works), lookUpNames waits on t for limit at most.
func (g *Group) lookUpNames(t *loop.Thread, limit time.Duration, noneWorks bool) error {
	if !g.hasNames {
		return nil
	}
	until := time.Now().Add(limit)
	var due []*loop.Promise[struct{}]
	someErr := false
	g.pool.mu.Lock()
	g.sync()
	for _, sc := range g.configured {
		someErr = someErr || sc.dnsName != nil && sc.targetErrs != sc.dnsName.targetErrs
		if sc.dnsName == nil || sc.dnsName.until.After(time.Now()) && sc.dnsName.pending == nil {
			continue
		}
		pending := sc.dnsName.begin()
		if noneWorks || len(g.all) == 0 {
			due = append(due, pending)
		}
	}
	some := len(g.all) > 0
	g.pool.mu.Unlock()
	if someErr {
		g.reportTargetErr()
	}
	if some && due == nil {
		return nil
	}
	for _, pending := range due {
		_, err := pending.Await(t, max(time.Until(until), 0))
		if err != nil && clientLeft(err) {
			return err
		}
	}
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	if len(g.all) > 0 {
		return nil
	}
	for _, sc := range g.configured {
		switch {
		case sc.dnsName == nil:
		case sc.dnsName.err != nil:
			return sc.dnsName.err
		case len(sc.dnsName.addresses) > 0:
			return errFamily
		}
	}
	return loop.ErrDeadlineExceeded
}

// reportTargetErr reports services with targets that cannot be looked up: once, until they can.
func (g *Group) reportTargetErr() {
	for _, sc := range g.configured {
		g.pool.mu.Lock()
		var err error
		if sc.dnsName != nil && sc.targetErrs != sc.dnsName.targetErrs {
			sc.targetErrs, err = sc.dnsName.targetErrs, sc.dnsName.targetErr
		}
		g.pool.mu.Unlock()
		if err != nil && g.ConnectFailed != nil {
			g.ConnectFailed(sc.name, err)
		}
	}
}

// resolveAgain begins a look-up of b's name, since its addresses do not work. While they do not,
// each request calls it, and it asks a DNS server once a second.
func (b *backend) resolveAgain() {
	b.pool.mu.Lock()
	if time.Since(b.dnsName.lookUpBegan) >= leastTTL {
		b.dnsName.until = time.Time{}
	}
	b.pool.mu.Unlock()
}

// sync gives the group a server for each present address of its names. The caller holds the pool's
// lock.
func (g *Group) sync() {
	if g.version != g.pool.states.version ||
		g.hasNames && slices.ContainsFunc(g.configured, (*serverConfig).changed) {
		g.rebuild()
	}
}

// rebuild is sync after a change. It is a function of its own since each request calls sync, and
// the map of rebuild would make the stack grow for as long as the request waits.
func (g *Group) rebuild() {
	before := make(map[serverKey]*server, len(g.all))
	for _, srv := range g.all {
		before[serverKey{srv.serverConfig, srv.backendKey}] = srv
	}
	g.all = nil
	for _, sc := range g.configured {
		if sc.dnsName == nil {
			g.addServer(sc, sc.key, before).level = 0
			continue
		}
		sc.dnsVersion = sc.dnsName.version
		for _, to := range sc.dnsName.addresses {
			if !g.reaches(to.addr) {
				continue
			}
			key := sc.key
			key.address = netip.AddrPortFrom(to.addr, cmp.Or(to.port, sc.port)).String()
			srv := g.addServer(sc, key, before)
			if srv.level = to.level; to.port != 0 {
				srv.weight = to.weight
			}
		}
	}
	last := 0 // of servers that are no backups
	for _, srv := range g.all {
		if srv.serverConfig.level == 0 {
			last = max(last, srv.level)
		}
	}
	for _, srv := range g.all {
		if srv.serverConfig.level > 0 {
			srv.level += last + srv.serverConfig.level
		}
	}
	g.selectUsable()
	var waiting []*waiter
	for e := range g.waiting.All() {
		waiting = append(waiting, e.Value)
	}
	there := make(map[*backend]bool, len(g.servers))
	for _, srv := range g.servers {
		there[srv.backend] = true
	}
	for _, w := range waiting {
		w.requeue(g.servers, there)
		if len(w.positions) == 0 { // it has tried all that are left
			w.withdraw()
			if len(g.all) > 0 && len(g.servers) == 0 {
				w.promise.Reject(errDown)
			} else {
				w.promise.Reject(errNoServers)
			}
		}
	}
	// Not only the new ones: while removed servers worked, waiting requests did not go to others that
	// do not work.
	for _, srv := range g.servers {
		srv.serve(nil)
	}
}

func (sc *serverConfig) changed() bool {
	return sc.dnsName != nil && sc.dnsVersion != sc.dnsName.version
}

// selectUsable selects the servers to which requests may go.
func (g *Group) selectUsable() {
	g.version = g.pool.states.version
	g.servers, g.levels = g.all, 0
	if len(g.pool.states.of) > 0 {
		g.servers = slices.DeleteFunc(slices.Clone(g.all), func(srv *server) bool {
			return g.pool.states.state(srv) != up
		})
	}
	for _, srv := range g.servers {
		g.levels = max(g.levels, srv.level)
	}
	g.ownMaxConns = nil
	for _, srv := range g.all {
		if srv.maxConns > 0 {
			if g.ownMaxConns == nil {
				g.ownMaxConns = make(map[*backend]int)
			}
			g.ownMaxConns[srv.backend] = srv.maxConns
		}
	}
	g.sums = nil
	if g.Balance == Random {
		sum := 0
		for _, srv := range g.servers {
			sum += srv.weight
			g.sums = append(g.sums, sum)
		}
	}
	g.classify()
}

// serverKey distinguishes the servers of a group.
type serverKey struct {
	*serverConfig
	backendKey
}

// addServer adds the server at a backend, and returns it. It reuses the one in before.
func (g *Group) addServer(sc *serverConfig, key backendKey, before map[serverKey]*server) *server {
	srv := before[serverKey{sc, key}]
	if srv == nil || srv.removed {
		srv = g.newServer(sc, key)
	}
	g.all = append(g.all, srv)
	return srv
}

var (
	errNoServers = errors.New("the name has no address")
	errFamily    = errors.New("the name has no address of the family of source")
)
