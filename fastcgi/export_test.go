package fastcgi

import "github.com/lwango/lwango/handlers"

// Pool is what all routes of a registration share.
type Pool = pool

// RegisterPool is Register, and returns the pool.
func RegisterPool(r *handlers.Registry) *Pool {
	p := new(pool)
	register(r, p)
	return p
}

// Waiting returns how many requests wait for a place, each of them counted at every address.
func (p *pool) Waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range p.peers {
		n += len(it.waiting)
	}
	return n
}
