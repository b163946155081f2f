package fair

import (
	"net/netip"
	"runtime"
	"sync"
)

// Slots are slots for work of many clients. Work that finds none free waits for its turn in a
// Queue. Any goroutine may call the methods.
type Slots struct {
	most func() int

	mu     sync.Mutex
	taken  int
	queues [2]Queue[func()] // of usual work; of work with low priority
}

// NewSlots makes slots. most is called once, before the first is taken.
func NewSlots(most func() int) *Slots { return &Slots{most: sync.OnceValue(most)} }

// Processors returns the number of slots for work that computes: half the number of loops, which is
// one less than the number of the process's processors.
func Processors() int { return max((runtime.GOMAXPROCS(0)-1)/2, 1) }

// Slot is a slot, or the wait for one.
type Slot struct {
	entry Entry[func()]
	queue *Queue[func()]
}

// Enter asks for a slot. begin is called when there is one, perhaps before Enter returns, and
// perhaps on the goroutine of a Leave; it must not block. After begin the caller calls Leave, once.
//
// With lowPriority the work waits until no other work waits.
func (p *Slots) Enter(client netip.Addr, lowPriority bool, begin func()) *Slot {
	most := p.most()
	slot := &Slot{entry: Entry[func()]{Value: begin}, queue: &p.queues[0]}
	if lowPriority {
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

// Withdraw ends the wait for a slot: begin will not be called. It returns false, and does nothing,
// if begin was called before, or is being called.
func (p *Slots) Withdraw(slot *Slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slot.entry.Waits() {
		return false
	}
	slot.queue.Remove(&slot.entry)
	return true
}

// Leave returns a slot.
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

// Stats returns how many slots are taken, and how many calls of Enter wait for one.
func (p *Slots) Stats() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.queues[0].Len() + p.queues[1].Len()
}
