package upstream

import "time"

// avoidFor is for how long an address that does not work is passed over, where a route has others.
// It is a variable only for the tests.
var avoidFor = 10 * time.Second

// maxBroken is how many connections in a row may bring nothing before that. One may be the fault of
// what was asked for.
const maxBroken = 3

// health is what earlier requests tell of an address. The pool's lock guards it.
type health struct {
	broken int       // connections in a row that were made, and brought nothing
	avoid  time.Time // zero: the address works, as far as is known
	told   bool      // that it was not reached
}

func (h *health) works(now time.Time) bool { return !h.avoid.After(now) }

// chosen is called for each request that gets a connection to the address. If the address did not
// work, this request finds out whether it does again. Until it knows, the others go elsewhere.
func (h *health) chosen() {
	if !h.avoid.IsZero() {
		h.avoid = time.Now().Add(avoidFor)
	}
}

// probed is chosen, and has the requests that wait served when the time is over.
func (p *peer) probed() {
	if p.chosen(); !p.avoid.IsZero() {
		p.alarm()
	}
}

// pass has the address passed over for a while. The caller holds the pool's lock.
func (p *peer) pass() {
	p.avoid = time.Now().Add(avoidFor)
	p.alarm()
	p.leaveHome()
}

// alarm gives slots to requests that wait when the address is to be used again: no other event may
// tell them. The caller holds the pool's lock.
func (p *peer) alarm() {
	if p.wake != nil {
		p.wake.Reset(avoidFor)
		return
	}
	p.wake = time.AfterFunc(avoidFor, func() {
		p.pool.mu.Lock()
		p.serve()
		p.pool.mu.Unlock()
	})
}

// refused notes that a request could not connect. It reports whether that is news: of the addresses
// of a name some may never have worked, such as ::1 of localhost.
func (p *peer) refused(blame bool) (news bool) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	news = p.host == nil || !p.told
	p.told = true
	if blame {
		p.pass()
	}
	p.ailing.Store(true)
	return news
}

// broke notes that a connection has ended, or stood still for too long, before a byte of the
// answer.
func (p *peer) broke() {
	p.pool.mu.Lock()
	if p.broken++; p.broken >= maxBroken {
		p.pass()
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
	p.health = health{}
	p.ailing.Store(false)
	p.serve()
	p.pool.mu.Unlock()
}
