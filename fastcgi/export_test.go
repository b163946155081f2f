package fastcgi

import (
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/sysio"
)

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

// Spool is spool.
type Spool struct{ spool }

// NewSpool makes one whose file is of that size.
func NewSpool(size int64) *Spool { return NewSpoolIn(new(sysio.TempSpace), size) }

// NewSpoolIn is NewSpool with files in space.
func NewSpoolIn(space *sysio.TempSpace, size int64) *Spool {
	return &Spool{spool{size: size, temp: space.Create}}
}

// Its methods.
func (s *Spool) Len() int64                 { return s.len() }
func (s *Spool) Write(p []byte) error       { return s.write(p) }
func (s *Spool) Read(p []byte) (int, error) { return s.read(p) }
func (s *Spool) Drop()                      { s.drop() }

// Health is health.
type Health struct{ health }

// Its methods, and a way to say until when the address is to be passed over.
func (h *Health) Works(now time.Time) bool { return h.works(now) }
func (h *Health) Chosen()                  { h.chosen() }
func (h *Health) Avoid(until time.Time)    { h.avoid = until }

// Printable is printable.
func Printable(text []byte) string { return printable(text) }

// Idle returns how many connections are kept.
func (p *pool) Idle() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range p.peers {
		n += len(it.idle)
	}
	return n
}

// ForgetNames has the time of the addresses be over that were found for names.
func (p *pool) ForgetNames() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range p.peers {
		it.found.until = time.Time{}
	}
}
