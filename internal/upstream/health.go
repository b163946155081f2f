package upstream

import "time"

const (
	// avoidFor is for how long an address that does not work is passed over, where a route has
	// others.
	avoidFor = 10 * time.Second
	// maxBroken is how many connections in a row may bring nothing before that. One may be the
	// fault of what was asked for.
	maxBroken = 3
)

// health is what earlier requests tell of an address. The pool's lock guards it.
type health struct {
	broken int       // connections in a row that were made, and brought nothing
	avoid  time.Time // zero: the address works, as far as is known
}

func (h *health) works(now time.Time) bool { return !h.avoid.After(now) }

// chosen is called for each request that gets a connection to the address. If the address did not
// work, this request finds out whether it does again. Until it knows, the others go elsewhere.
func (h *health) chosen() {
	if !h.avoid.IsZero() {
		h.avoid = time.Now().Add(avoidFor)
	}
}

// refused notes that a request could not connect.
func (p *peer) refused() {
	p.pool.mu.Lock()
	p.avoid = time.Now().Add(avoidFor)
	p.pool.mu.Unlock()
}

// broke notes that a connection has ended, or stood still for too long, before a byte of the
// answer.
func (p *peer) broke() {
	p.pool.mu.Lock()
	if p.broken++; p.broken >= maxBroken {
		p.avoid = time.Now().Add(avoidFor)
	}
	p.pool.mu.Unlock()
}

// spoke notes that an answer begins. A connection alone proves nothing: for a process that hangs,
// the kernel goes on accepting.
func (p *peer) spoke() {
	p.pool.mu.Lock()
	p.health = health{}
	p.pool.mu.Unlock()
}
