package upstream

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/loop"
)

// Waiting returns how many requests wait for a slot, each of them counted at every address.
func (p *Pool) Waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		n += b.waiting.len()
	}
	return n
}

// Active returns how many connections are in use, or are being made.
func (p *Pool) Active() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		n += b.active
	}
	return n
}

// Idle returns how many connections are idle.
func (p *Pool) Idle() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		n += b.idleCount()
	}
	return n
}

// Age lets time pass for the connections that are idle, and closes those whose time has come.
func (p *Pool) Age(d time.Duration) {
	p.mu.Lock()
	for _, b := range p.backends {
		for i := range b.idle {
			b.idle[i].until -= d
		}
		for i := range b.affine {
			b.affine[i].until -= d
		}
	}
	p.mu.Unlock()
	p.closeIdle()
}

// ForgetNames ends the time of the addresses that were found for names.
func (p *Pool) ForgetNames() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.dnsNames {
		h.until, h.lookUpBegan = time.Time{}, time.Time{}
	}
}

// LookUp has all names looked up that the pool knows, and returns when that is done.
func (p *Pool) LookUp() {
	p.mu.Lock()
	for _, h := range p.dnsNames {
		h.begin()
		ended := h.ended
		p.mu.Unlock()
		<-ended
		p.mu.Lock()
		h.lookUpBegan = time.Time{} // a request may ask again at once
	}
	p.mu.Unlock()
}

// Version returns how often the addresses of a name have changed.
func (p *Pool) Version(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dnsNames[name].version
}

// Pending reports whether a name is being looked up.
func (p *Pool) Pending(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dnsNames[name].pending != nil
}

// Timer returns the timer that closes idle connections.
func (p *Pool) Timer() *time.Timer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timer
}

// Idled has all idle connections have waited for longer.
func (p *Pool) Idled(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		for i := range b.idle {
			b.idle[i].since -= d
		}
		for i := range b.affine {
			b.affine[i].since -= d
		}
	}
}

// Later ends the half minute of all peaks.
func (p *Pool) Later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		b.peakActive.until -= d
	}
}

// Backends returns how many backends are known.
func (p *Pool) Backends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.backends)
}

// AvoidFor sets for how long addresses that do not work are passed over, and returns a function
// that sets it back.
func AvoidFor(d time.Duration) (reset func()) {
	before := avoidTime
	avoidTime = d
	return func() { avoidTime = before }
}

// SpareFor sets for how long a slot is spare, and returns a function that sets it back.
func SpareFor(d time.Duration) (reset func()) {
	before := spareTime
	spareTime = d
	return func() { spareTime = before }
}

// EndOpen ends the time for which the circuits that are open let no request pass.
func EndOpen(g *Group) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, srv := range g.all {
		if !srv.circuit.until.IsZero() {
			srv.circuit.until = time.Now()
			srv.serve(nil)
		}
	}
}

// EndSpare ends the time for which slots are spare.
func EndSpare(p *Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		b.spare.until = [2]time.Duration{}
	}
}

// Resolve is resolve.
var Resolve = resolve

// FilesEvery sets how often files are looked at, and returns a function that sets it back.
func FilesEvery(d time.Duration) (reset func()) {
	before := filesInterval
	filesInterval = d
	return func() { filesInterval = before }
}

// ServiceTTL returns for how long the addresses of a service are good.
func ServiceTTL(ctx context.Context, name string) (time.Duration, error) {
	_, ttl, _, err := resolveService(ctx, name, nil)
	return ttl, err
}

// Health is health.
type Health struct{ health }

// Its methods, and a way to say until when the address is to be passed over.
func (h *Health) Works(now time.Time) bool { return h.works(now) }
func (h *Health) Chosen()                  { h.chosen(avoidTime) }
func (h *Health) Avoid(until time.Time)    { h.avoidUntil = until }

// Pick gets a slot of the group, and gives it back, without a connection. It returns the address.
func Pick(g *Group, key uint64) string {
	l := g.Lease()
	l.Key = key
	if w, err := l.acquire(nil, loop.Now()); w != nil || err != nil {
		return ""
	}
	name := l.server.name
	l.Release()
	return name
}

// ServiceAddrs returns the addresses of a service.
func ServiceAddrs(ctx context.Context, name string) (at []string, err error) {
	all, _, _, err := resolveService(ctx, name, nil)
	for _, p := range all {
		at = append(at, netip.AddrPortFrom(p.addr, p.port).String())
	}
	return at, err
}

// Weight returns the weight, in hundredths, of a server that has worked for that long.
func Weight(weight int, slowStart, age time.Duration) int {
	g := &Group{Settings: Settings{SlowStart: slowStart}}
	now := time.Now()
	return g.weight(&server{backend: &backend{upSince: now.Add(-age)}, weight: weight}, now)
}

// Share returns the time for an address beside so many others, of all that there is, and whether a
// connection that was not made in some time speaks against the address.
func Share(all time.Duration, others, tries int) (time.Duration, func(time.Duration) bool) {
	g := &Group{Settings: Settings{ConnectTimeout: all}}
	l := Lease{group: g, untriedServers: others, Tries: tries, server: &server{backend: new(backend)}}
	return l.share(all, false), func(d time.Duration) bool {
		return l.isServerFault(os.ErrDeadlineExceeded, d, others+1)
	}
}

// Take is Pick, and keeps the slot until give is called. The address is "" if there is none.
func Take(g *Group, key uint64) (address string, give func()) {
	l := g.Lease()
	l.Key = key
	if w, _ := l.acquire(nil, loop.Now()); w != nil {
		w.giveUp()
	}
	if !l.HasSlot() {
		return "", func() {}
	}
	return l.server.name, l.Release
}

// SetBudget sets whose descriptors all have until the test's end.
func SetBudget(t testing.TB, b *openfiles.Budget) {
	old := budget
	budget = b
	t.Cleanup(func() { budget = old })
}

// Avoid has an address passed over for a time, and CameUp has it begin to work that long ago.
func Avoid(g *Group, address string, d time.Duration) {
	g.each(address, func(b *backend) { b.avoidUntil = time.Now().Add(d) })
}

func CameUp(g *Group, address string, ago time.Duration) {
	g.each(address, func(b *backend) {
		b.cameUp()
		b.upSince = b.upSince.Add(-ago)
		b.health = health{}
	})
}

func (g *Group) each(address string, do func(*backend)) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, srv := range g.all {
		if srv.name == address {
			do(srv.backend)
		}
	}
}
