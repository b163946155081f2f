package fair

import (
	"net/netip"
	"runtime"
	"sync"
)

// Places are a number of places for work of many clients. Work that finds none waits for its turn in
// a Queue. Any goroutine may call the methods.
type Places struct {
	most func() int

	mu     sync.Mutex
	taken  int
	queues [2]Queue[func()] // of the usual ones; of those behind them
}

// NewPlaces makes places. most is called once, before the first is taken.
func NewPlaces(most func() int) *Places { return &Places{most: sync.OnceValue(most)} }

// Processors is a number of places for work that computes: half as many as there are loops, which
// have one processor less than the process has.
func Processors() int { return max((runtime.GOMAXPROCS(0)-1)/2, 1) }

// Place is a place, or the wait for one.
type Place struct {
	entry Entry[func()]
	queue *Queue[func()]
}

// Enter asks for a place. begin is called when there is one, which may be before Enter returns, and
// on any goroutine that gives one back; it must not block. After begin the caller calls Leave, once.
//
// behind: the work waits until no other work does.
func (p *Places) Enter(client netip.Addr, behind bool, begin func()) *Place {
	most := p.most()
	place := &Place{entry: Entry[func()]{Value: begin}, queue: &p.queues[0]}
	if behind {
		place.queue = &p.queues[1]
	}
	p.mu.Lock()
	if p.taken >= most {
		place.queue.Add(client, &place.entry)
		p.mu.Unlock()
		return place
	}
	p.taken++
	p.mu.Unlock()
	begin()
	return place
}

// Withdraw ends the wait for a place: begin will not be called. It reports false, and does nothing,
// if it was called before, or is being called.
func (p *Places) Withdraw(place *Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !place.entry.Waits() {
		return false
	}
	place.queue.Remove(&place.entry)
	return true
}

// Leave gives a place back.
func (p *Places) Leave() {
	p.mu.Lock()
	for i := range p.queues {
		if next := p.queues[i].Next(); next != nil {
			p.queues[i].Take(next)
			p.mu.Unlock()
			next.Value()
			return
		}
	}
	p.taken--
	p.mu.Unlock()
}

// Stats returns how many places are taken, and how much work waits for one.
func (p *Places) Stats() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.queues[0].Len() + p.queues[1].Len()
}
