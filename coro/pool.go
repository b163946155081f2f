package coro

// Pool keeps parked coroutines for reuse, last in first out: the few that were in use a moment ago still have
// their stacks in the cache, and what a burst left over sinks to the bottom, where Trim finds it. It belongs to
// one loop.
type Pool struct {
	Handoff Handoff
	Next    func(c *Coro, v Value) Body // see New

	free []parkedCoro
}

type parkedCoro struct {
	c     *Coro
	since int64
}

// Get returns a parked coroutine, a new one where none is left.
func (p *Pool) Get() *Coro {
	last := len(p.free) - 1
	if last < 0 {
		return New(p.Handoff, p.Next)
	}
	c := p.free[last].c
	p.free[last].c = nil
	p.free = p.free[:last]
	return c
}

// Put takes back a coroutine whose body has ended. now is the time on any clock that Trim is called with too. A
// dead coroutine is let go.
func (p *Pool) Put(c *Coro, now int64) {
	if c.Dead() {
		c.Dispose()
		return
	}
	p.free = append(p.free, parkedCoro{c, now})
}

// Len returns how many coroutines are parked.
func (p *Pool) Len() int { return len(p.free) }

// Trim ends coroutines that have been parked since before the given time without being used, at most so many, and reports
// whether it has left others.
func (p *Pool) Trim(before int64, most int) (more bool) {
	n := 0
	for n < len(p.free) && p.free[n].since < before {
		if n == most {
			more = true
			break
		}
		p.free[n].c.Close()
		n++
	}
	if n == 0 {
		return more
	}
	kept := copy(p.free, p.free[n:])
	clear(p.free[kept:])
	p.free = p.free[:kept]
	if cap(p.free) > 64 && kept < cap(p.free)/4 {
		p.free = append(make([]parkedCoro, 0, 2*kept), p.free...)
	}
	return more
}

// Close ends all.
func (p *Pool) Close() {
	for i := range p.free {
		p.free[i].c.Close()
	}
	p.free = nil
}
