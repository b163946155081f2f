package fair

import (
	"net/netip"
	"runtime"
	"sync"
)

// Slots are a number of slots for work of many clients. Work that finds none waits for its turn in
// a Queue. Any goroutine may call the methods.
type Slots struct {
	most func() int

	mu     sync.Mutex
	taken  int
	queues [2]Queue[func()] // of the usual ones; of those behind them
}

// NewSlots makes slots. most is called once, before the first is taken.
func NewSlots(most func() int) *Slots { return &Slots{most: sync.OnceValue(most)} }

// Processors is a number of slots for work that computes: half as many as there are loops, which
// have one processor less than the process has.
func Processors() int { return max((runtime.GOMAXPROCS(0)-1)/2, 1) }

// Slot is a slot, or the wait for one.
type Slot struct {
	entry Entry[func()]
	queue *Queue[func()]
}

// Enter asks for a slot. begin is called when there is one, which may be before Enter returns, and
// on any goroutine that gives one back; it must not block. After begin the caller calls Leave,
// once.
//
// behind: the work waits until no other work does.
func (p *Slots) Enter(client netip.Addr, behind bool, begin func()) *Slot {
	most := p.most()
	slot := &Slot{entry: Entry[func()]{Value: begin}, queue: &p.queues[0]}
	if behind {
		slot.queue = &p.queues[1]
	}
	p.mu.Lock()
	if p.taken >= most {
		slot.queue.Add(client, &slot.entry)
		p.mu.Unlock()
		return slot
	}
	p.taken++
	p.mu.Unlock()
	begin()
	return slot
}

// Withdraw ends the wait for a slot: begin will not be called. It reports false, and does nothing,
// if it was called before, or is being called.
func (p *Slots) Withdraw(slot *Slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slot.entry.Waits() {
		return false
	}
	slot.queue.Remove(&slot.entry)
	return true
}

// Leave gives a slot back.
func (p *Slots) Leave() {
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

// Stats returns how many slots are taken, and how much work waits for one.
func (p *Slots) Stats() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.queues[0].Len() + p.queues[1].Len()
}
