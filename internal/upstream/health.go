package upstream

import (
	"cmp"
	"time"
)

// avoidFor is for how long an address that does not work is passed over, where a route has others.
// It is a variable only for the tests.
var avoidFor = 10 * time.Second

// maxBroken is how many connections in a row may bring nothing before that, where MaxFails is 0.
// One may be the fault of what was asked for.
const maxBroken = 3

func (g *Group) failTimeout() time.Duration {
	if g.FailTimeout > 0 {
		return g.FailTimeout
	}
	return avoidFor
}

// health is what earlier requests tell of an address. The pool's lock guards it.
type health struct {
	broken   int       // connections in a row that were made, and brought nothing
	avoid    time.Time // zero: the address works, as far as is known
	reported bool      // that it was not reached
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
func (b *backend) probed(d time.Duration) {
	if b.chosen(d); !b.avoid.IsZero() {
		b.alarm(d)
	}
}

// pass has the address passed over for a while. The caller holds the pool's lock.
func (b *backend) pass(d time.Duration) {
	b.avoid = time.Now().Add(d)
	b.alarm(d)
	b.serveAll()
}

// alarm gives slots to requests that wait when the address is to be used again: no other event may
// tell them. The caller holds the pool's lock.
func (b *backend) alarm(d time.Duration) {
	if b.wake != nil {
		b.wake.Reset(d)
		return
	}
	b.wake = time.AfterFunc(d, func() {
		b.pool.mu.Lock()
		b.serve(nil)
		b.pool.mu.Unlock()
	})
}

// refused notes that a request could not connect. It reports whether that is news: of the addresses
// of a name some may never have worked, such as ::1 of localhost.
func (b *backend) refused(g *Group, blame bool) (news bool) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	news = b.dnsName == nil || !b.reported
	b.reported = true
	if blame && g.MaxFails >= 0 {
		b.pass(g.failTimeout())
	}
	b.unhealthy.Store(true)
	return news
}

// broke notes that a connection has ended, or stood still for too long, before a byte of the
// answer.
func (b *backend) broke(g *Group) {
	most := cmp.Or(g.MaxFails, maxBroken)
	b.pool.mu.Lock()
	if b.broken++; most > 0 && b.broken >= most {
		b.pass(g.failTimeout())
	}
	b.unhealthy.Store(true)
	b.pool.mu.Unlock()
}

// spoke notes that an answer begins. A connection alone proves nothing: for a process that hangs,
// the kernel goes on accepting.
func (b *backend) spoke() {
	if !b.unhealthy.Load() {
		return
	}
	b.pool.mu.Lock()
	if !b.avoid.IsZero() {
		b.cameUp()
	}
	b.health = health{}
	b.unhealthy.Store(false)
	b.serve(nil)
	b.pool.mu.Unlock()
}
