package fastcgi

import "time"

const (
	// avoidFor is how long an address that does not work is passed over, where a route has others.
	avoidFor = 10 * time.Second
	// maxBroken is how many connections in a row may come to nothing before that. One may be a script's own fault.
	maxBroken = 3
)

// health is what the requests of the past tell of an address. It is guarded by the pool's lock.
type health struct {
	broken int       // connections in a row that were made, and brought nothing
	avoid  time.Time // zero: it works, as far as is known
}

func (h *health) works(now time.Time) bool { return !h.avoid.After(now) }

// chosen is called for whoever gets a connection to the address. Where it did not work, one request finds out whether
// it does again, and the others of that time are not lost with it.
func (h *health) chosen() {
	if !h.avoid.IsZero() {
		h.avoid = time.Now().Add(avoidFor)
	}
}

// refused notes that nobody could connect.
func (p *peer) refused() {
	p.pool.mu.Lock()
	p.avoid = time.Now().Add(avoidFor)
	p.pool.mu.Unlock()
}

// broke notes that a connection has ended, or stood still for too long, before a byte of the answer.
func (p *peer) broke() {
	p.pool.mu.Lock()
	if p.broken++; p.broken >= maxBroken {
		p.avoid = time.Now().Add(avoidFor)
	}
	p.pool.mu.Unlock()
}

// spoke notes that an answer begins. To connect is not enough: for a process that hangs, the kernel goes on accepting.
func (p *peer) spoke() {
	p.pool.mu.Lock()
	p.health = health{}
	p.pool.mu.Unlock()
}
