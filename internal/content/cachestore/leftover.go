package cachestore

import (
	"runtime/metrics"
	"sync/atomic"
	"unsafe"
	"weak"
)

// leftovers are slabs that the store has forgotten and that may still be in memory, since somebody
// has a string of them: a client that does not take its answer. Who sends a short answer says so to
// nobody, as that would be two writes for each hit to memory that all loops share. But the
// collector knows. What two of its cycles have not freed counts in bounds.gone until it is freed.
//
// That is a quarter of the memory at most: slabs that are held may be among those that would be
// evicted for it, which gives nothing back. But once an eighth is held, look-ups give copies. So
// what is held besides is no more than the slabs that there were then. The holder of Store.mu uses
// leftovers.
//
// To look at a slab while the collector marks keeps it for that cycle. So between two looks there
// is a cycle that nobody disturbs.
type leftovers struct {
	list []leftover // in no order
	next int        // the one of list that is looked at next
	held int64      // bytes that count
	read [1]metrics.Sample

	many atomic.Bool // bytes count: whoever looks up gets copies; read without the lock
}

type leftover struct {
	slab   weak.Pointer[byte]
	cycle  uint64 // of the collector, when it was forgotten or looked at last
	counts bool
}

// leave notes that a slab is forgotten.
func (l *leftovers) leave(at unsafe.Pointer) {
	l.list = append(l.list, leftover{slab: weak.Make((*byte)(at)), cycle: l.cycle()})
}

// cycle returns how often the collector has run.
func (l *leftovers) cycle() uint64 {
	l.read[0].Name = "/gc/cycles/total:gc-cycles"
	metrics.Read(l.read[:])
	return l.read[0].Value.Uint64()
}

// sift goes through the next n leftovers.
func (m *memory) sift(n int) {
	l := &m.left
	if len(l.list) == 0 {
		return
	}
	now := l.cycle()
	for ; n > 0 && len(l.list) > 0; n-- {
		if l.next >= len(l.list) {
			l.next = 0
		}
		x := &l.list[l.next]
		old := now >= x.cycle+2
		switch {
		case old && x.slab.Value() == nil:
			m.count(x, false)
			last := len(l.list) - 1
			*x, l.list[last] = l.list[last], leftover{}
			l.list = l.list[:last]
			continue
		case l.held-int64(m.size) >= m.limit/4: // which was more
			m.count(x, false)
		case old && l.held < m.limit/4:
			m.count(x, true)
		}
		if old {
			x.cycle = now
		}
		l.next++
	}
	if many := l.held > m.limit/8; many != l.many.Load() {
		l.many.Store(many)
	}
}

// count says whether a leftover counts as memory.
func (m *memory) count(x *leftover, counts bool) {
	n := int64(m.size)
	switch {
	case counts == x.counts:
	case counts:
		m.left.held += n
		m.bounds.leave(n)
	default:
		m.left.held -= n
		m.settle(n)
	}
	x.counts = counts
}

// sifted is how many leftovers are looked at for each that comes, so that the list has hardly more
// than what is held and what the collector has not come to.
const sifted = 4

// apart puts copies in the place of what a look-up has found, as carry makes them, while leftovers
// are many. So whoever has them for long holds no slab.
func (s *Store) apart(found []*Object) {
	if s.mu.TryLock() { // who holds some may have left
		s.memory.sift(sifted)
		s.mu.Unlock()
	}
	for i, o := range found {
		if o.x == nil {
			o.hit() // of which the copy cannot tell
			found[i] = o.copied()
		}
	}
}

// copied returns a copy of an object of a slab. It is not in the store, as what was carried away.
func (o *Object) copied() *Object {
	to := (*Object)(unsafe.Pointer(unsafe.SliceData(make([]uint64, o.size/8))))
	to.cell, to.hash, to.id = o.cell, o.hash, o.id
	copy(rest(&to.cell, fixed), rest(&o.cell, fixed))
	to.seen.Store(o.seen.Load())
	to.staleAt.Store(o.staleAt.Load())
	for i := range o.forms {
		to.forms[i].Store(o.forms[i].Load())
	}
	return to
}
