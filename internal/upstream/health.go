package upstream

import (
	"cmp"
	"time"
)

// avoidFor is for how long an address that does not work is passed over, where a route has others.
// It is a variable only for the tests.
var avoidFor = 10 * time.Second

// maxBroken is how many connections in a row may bring nothing before that, where MaxFails is 0. One
// may be the fault of what was asked for.
const maxBroken = 3

func (g *Group) failTimeout() time.Duration {
	if g.FailTimeout > 0 {
		return g.FailTimeout
	}
	return avoidFor
}

// health is what earlier requests tell of an address. The pool's lock guards it.
type health struct {
	broken int       // connections in a row that were made, and brought nothing
	avoid  time.Time // zero: the address works, as far as is known
	told   bool      // that it was not reached
}

func (h *health) works(now time.Time) bool { return !h.avoid.After(now) }

// chosen is called for each request that gets a connection to the address. If the address did not
// work, this request finds out whether it does again. Until it knows, the others go elsewhere.
func (h *health) chosen(d time.Duration) {
	if !h.avoid.IsZero() {
		h.avoid = time.Now().Add(d)
	}
}

// probed is chosen, and has the requests that wait served when the time is over.
func (p *peer) probed(d time.Duration) {
	if p.chosen(d); !p.avoid.IsZero() {
		p.alarm(d)
	}
}

// pass has the address passed over for a while. The caller holds the pool's lock.
func (p *peer) pass(d time.Duration) {
	p.avoid = time.Now().Add(d)
	p.alarm(d)
	p.serveAll()
}

// alarm gives slots to requests that wait when the address is to be used again: no other event may
// tell them. The caller holds the pool's lock.
func (p *peer) alarm(d time.Duration) {
	if p.wake != nil {
		p.wake.Reset(d)
		return
	}
	p.wake = time.AfterFunc(d, func() {
		p.pool.mu.Lock()
		p.serve(nil)
		p.pool.mu.Unlock()
	})
}

// refused notes that a request could not connect. It reports whether that is news: of the addresses
// of a name some may never have worked, such as ::1 of localhost.
func (p *peer) refused(g *Group, blame bool) (news bool) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	news = p.host == nil || !p.told
	p.told = true
	if blame && g.MaxFails >= 0 {
		p.pass(g.failTimeout())
	}
	p.ailing.Store(true)
	return news
}

// broke notes that a connection has ended, or stood still for too long, before a byte of the
// answer.
func (p *peer) broke(g *Group) {
	most := cmp.Or(g.MaxFails, maxBroken)
	p.pool.mu.Lock()
	if p.broken++; most > 0 && p.broken >= most {
		p.pass(g.failTimeout())
	}
	p.ailing.Store(true)
	p.pool.mu.Unlock()
}

// spoke notes that an answer begins. A connection alone proves nothing: for a process that hangs,
// the kernel goes on accepting.
func (p *peer) spoke() {
	if !p.ailing.Load() {
		return
	}
	p.pool.mu.Lock()
	if !p.avoid.IsZero() {
		p.rise()
	}
	p.health = health{}
	p.ailing.Store(false)
	p.serve(nil)
	p.pool.mu.Unlock()
}
