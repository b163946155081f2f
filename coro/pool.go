package coro

// Pool keeps parked coroutines for reuse, last in, first out. The few that were in use a moment ago
// still have their stacks in the cache. What a burst has left over sinks to the bottom, where Trim
// finds it. A Pool belongs to one loop.
type Pool struct {
	Handoff Handoff
	Next    func(c *Coro, v Value) Task // see New

	free   []parkedCoro
	bottom int // those below were closed by Trim
	used   int // Get has returned them, and Put has not got them back
}

type parkedCoro struct {
	c     *Coro
	since int64
}

// Get returns a parked coroutine, or a new one if none is parked.
func (p *Pool) Get() *Coro {
	p.used++
	last := len(p.free) - 1
	if last < p.bottom {
		return New(p.Handoff, p.Next)
	}
	c := p.free[last].c
	p.free[last].c = nil
	p.free = p.free[:last]
	return c
}

// Put takes back a coroutine whose task has returned, and disposes of a dead one. now is the time,
// by any clock, as long as Trim is called with the same.
func (p *Pool) Put(c *Coro, now int64) {
	p.used--
	if c.Dead() {
		c.Dispose()
		return
	}
	p.free = append(p.free, parkedCoro{c, now})
}

// Len returns how many coroutines are parked.
func (p *Pool) Len() int { return len(p.free) - p.bottom }

// Used returns how many coroutines have a task.
func (p *Pool) Used() int { return p.used }

// Trim closes coroutines that have been parked without use since before the given time, at most so
// many of them, and reports whether it has left others.
func (p *Pool) Trim(before int64, most int) (more bool) {
	end := min(p.bottom+most, len(p.free))
	for p.bottom < end && p.free[p.bottom].since < before {
		p.free[p.bottom].c.Close()
		p.free[p.bottom].c = nil
		p.bottom++
	}
	more = p.bottom == end && end < len(p.free) && p.free[end].since < before
	if p.bottom > len(p.free)/2 { // not sooner: so one is moved for each that was closed, at most
		rest := p.free[p.bottom:]
		if cap(p.free) > 64 && len(rest) < cap(p.free)/4 {
			p.free = append(make([]parkedCoro, 0, 2*len(rest)), rest...)
		} else {
			kept := copy(p.free, rest)
			clear(p.free[kept:])
			p.free = p.free[:kept]
		}
		p.bottom = 0
	}
	return more
}

// Close closes all.
func (p *Pool) Close() {
	for _, parked := range p.free[p.bottom:] {
		parked.c.Close()
	}
	p.free, p.bottom = nil, 0
}
