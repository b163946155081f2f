package cachestore

import (
	"slices"
	"unsafe"
)

// memory has the objects of a store that are in memory: S3-FIFO as in fileQueues, with slabs in the
// order of the queues. What is looked at for eviction is the oldest slab of a queue, one object
// after the other: an object that was used is copied to the front of the main queue, and the others
// are forgotten. So a slab becomes empty, and the collector's. The bytes of an object that was
// purged or replaced meanwhile come back at the same time, or as soon as nothing else in the slab
// is wanted. The holder of Store.mu does all that; lookups go through slots.at.
type memory struct {
	slots
	bounds
	small, main slabQueue
	ghosts      ghosts
	store       *Store
	left        leftovers
	evicted     uint64
	in          int // the slot that evict looks through; -1: none
}

// slabQueue is a queue of slots, the oldest first.
type slabQueue struct {
	where uint32
	list  []uint64 // slots, and above these their ages; those that are not in the queue any more stay
	first int      // of list
	open  int      // the slot of the slab that is being filled; -1: none
	n     int64    // objects
	bytes int64
	waste int64 // of bytes, what nobody wants any more
}

func (m *memory) begin(s *Store, memory int64) {
	m.store, m.in = s, -1
	m.small, m.main = slabQueue{where: inSmall, open: -1}, slabQueue{where: inMain, open: -1}
	m.ghosts = newGhosts(memory)
	m.slots.begin(memory)
}

func (m *memory) queue(where uint32) *slabQueue {
	if where == inMain {
		return &m.main
	}
	return &m.small
}

// longest is the longest record that a slab takes.
func (m *memory) longest() int { return m.size / 8 }

// addSlot takes a slot for what begins at an address, and puts it at the front of a queue.
func (m *memory) addSlot(q *slabQueue, at unsafe.Pointer, info slotInfo) uint32 {
	before := m.slots.bytes()
	info.queue = q.where
	i := m.take(at, info)
	m.used += info.cost + m.slots.bytes() - before
	q.bytes += info.cost
	m.push(q, i)
	return i
}

// push puts a slot at the front of a queue. Where there is no room in the list, it forgets those
// that have left the queue: in a store that is never full, step does not come to them.
func (m *memory) push(q *slabQueue, i uint32) {
	if n := cap(q.list); len(q.list) == n {
		list := q.list[:0]
		for _, entry := range q.list[q.first:] {
			if m.queued(q, entry) {
				list = append(list, entry)
			}
		}
		if q.list, q.first = list, 0; len(list) >= n/2 {
			q.list = slices.Grow(list, n-len(list)+1)
		}
	}
	q.list = append(q.list, m.info[i].age<<slotBits|uint64(i))
}

// queued reports whether the slot of an entry of a queue's list is still in the queue.
func (m *memory) queued(q *slabQueue, entry uint64) bool {
	x := &m.info[entry&(1<<slotBits-1)]
	return x.queue == q.where && x.age == entry>>slotBits
}

// room returns where n bytes are for a record, in the newest slab of a queue.
func (m *memory) room(q *slabQueue, n int) (ref, unsafe.Pointer) {
	n = align(n)
	if q.open < 0 || int(m.info[q.open].used)+n > m.size {
		m.close(q)
		b := unsafe.Pointer(unsafe.SliceData(make([]uint64, m.size/8)))
		q.open = int(m.addSlot(q, b, slotInfo{cost: int64(m.size)}))
	}
	x := &m.info[q.open]
	r := makeRef(uint32(q.open), x.age, int(x.used))
	x.used += int32(n)
	x.live += int32(n)
	p := m.slots.at(r)
	*(*cell)(p) = cell{self: r, size: int32(n)}
	return r, p
}

// close ends the filling of a queue's newest slab.
func (m *memory) close(q *slabQueue) {
	if i := q.open; i >= 0 {
		q.open = -1
		m.emptied(uint32(i))
	}
}

// emptied frees a slot of which nothing is wanted any more, unless it is in use.
func (m *memory) emptied(i uint32) {
	x := &m.info[i]
	if x.live == 0 && int(i) != m.in && int(i) != m.small.open && int(i) != m.main.open {
		q := m.queue(x.queue)
		q.bytes -= x.cost
		q.waste -= int64(x.waste)
		m.used -= x.cost
		if x.used > 0 {
			m.left.leave(unsafe.Pointer((*m.slots.all.Load())[i].at.Load()))
			m.sift(sifted)
		}
		m.give(i)
	}
}

// waste notes that nobody wants a record any more.
func (m *memory) waste(c *cell) {
	i := c.self.slot()
	x := &m.info[i]
	x.live -= c.size
	x.waste += c.size
	m.queue(x.queue).waste += int64(c.size)
	m.emptied(i)
}

// enter makes o a member, and is the last that happens before it can be found.
func (m *memory) enter(o *Object, where, hits uint32) {
	o.move(where, hits)
	m.queue(where).n++
	o.joined()
}

// single gives an object that is no record of a slab a slot.
func (m *memory) single(o *Object, where uint32) {
	cost := o.cost()
	i := m.addSlot(m.queue(where), unsafe.Pointer(o), slotInfo{cost: cost, live: 1})
	o.cell = cell{self: makeRef(i, m.info[i].age, 0), size: 1}
}

// remove ends o's membership, if it is a member. It can be found until the caller has taken it out
// of the table.
func (m *memory) remove(o *Object) bool {
	where := o.where()
	if where == nowhere {
		return false
	}
	o.move(nowhere, 0)
	m.queue(where).n--
	for i := range o.forms {
		m.wasteForm(ref(o.forms[i].Load()))
	}
	m.waste(&o.cell)
	o.left()
	return true
}

func (m *memory) wasteForm(r ref) {
	if c := m.form(r); c != nil && !c.unwanted {
		c.unwanted = true
		m.waste(&c.cell)
	}
}

// form returns a coded form, or nil if it is forgotten.
func (m *slots) form(r ref) *codedForm {
	if r <= formClaimed {
		return nil
	}
	return (*codedForm)(m.at(r))
}

// grow notes that a single object has become n bytes larger.
func (m *memory) grow(o *Object, n int64) {
	if where := o.where(); where != nowhere && o.x != nil {
		m.info[o.self.slot()].cost += n
		m.queue(where).bytes += n
		m.used += n
		m.shrink()
	}
}

func (m *memory) reserve(n int64, force bool) bool { return m.bounds.reserve(n, force, m.shrink) }

// shrink evicts until the rest fits, if need be what has just come. Objects that are being sent
// stay.
func (m *memory) shrink() {
	if m.full() && m.left.held > 0 {
		m.sift(sifted)
	}
	for busy := int64(0); (m.full() || m.short()) && busy < m.small.n+m.main.n; {
		if m.step(busy > 0) {
			busy = 0
		} else {
			busy++
		}
	}
}

// step looks at one object, which goes on or out. It reports false for one that is being sent, and
// so stays. small says to take one of the small queue, if there is one. As long as an eighth of the
// memory is waste, no object has to go: they are carried to the front of their queue, until the
// slabs come that have the waste.
func (m *memory) step(small bool) bool {
	q := &m.main
	compact := m.small.waste+m.main.waste > m.limit/8
	switch {
	case compact && m.small.waste > m.main.waste && m.small.n > 0:
		q = &m.small
	case compact && m.main.n > 0:
	case m.small.n > 0 && (small || m.small.bytes > m.limit/10 || m.main.n == 0):
		q, compact = &m.small, false
	default:
		compact = false
	}
	for {
		entry := q.list[q.first]
		if !m.queued(q, entry) {
			q.first++ // it was emptied
			continue
		}
		i := uint32(entry & (1<<slotBits - 1))
		x := &m.info[i]
		if int(i) == q.open {
			q.open = -1
		}
		if x.used == 0 {
			q.first++
			return m.judgeSingle(q, i, compact)
		}
		m.in = int(i)
		looked := m.judgeNext(i, compact)
		m.in = -1
		if x = &m.info[i]; x.cursor >= x.used {
			x.live = 0 // coded forms may be left
		}
		m.emptied(i)
		if looked {
			return true
		}
	}
}

// judgeSingle decides about an object that has a slot of its own, which has left the queue's list.
func (m *memory) judgeSingle(q *slabQueue, i uint32, compact bool) bool {
	o := (*Object)(unsafe.Pointer((*m.slots.all.Load())[i].at.Load()))
	hits, busy := o.hits(), o.busy()
	if !busy && hits == 0 && !compact {
		m.drop(q, o)
		return true
	}
	to := &m.main
	switch {
	case compact:
		to = q
	case busy:
	case q == &m.small:
		hits = 0
	default:
		hits--
	}
	x := &m.info[i]
	q.n, q.bytes = q.n-1, q.bytes-x.cost
	x.queue = to.where
	to.n, to.bytes = to.n+1, to.bytes+x.cost
	m.push(to, i)
	o.move(to.where, hits)
	return !busy
}

// judgeNext decides about the next record of a slab. It reports whether that was an object.
func (m *memory) judgeNext(i uint32, compact bool) bool {
	x := &m.info[i]
	q := m.queue(x.queue)
	c := (*cell)(m.slots.at(makeRef(i, x.age, int(x.cursor))))
	x.cursor += c.size
	m.fetchNext(c, x.used-x.cursor)
	if c.kind != isObject {
		return false
	}
	o := (*Object)(unsafe.Pointer(c))
	if o.where() == nowhere {
		return false
	}
	switch hits := o.hits(); {
	case compact:
		m.carry(o, q.where, hits)
	case hits > 0 && q == &m.main:
		m.carry(o, inMain, hits-1)
	case hits > 0:
		m.carry(o, inMain, 0)
	default:
		m.drop(q, o)
	}
	return true
}

// fetchNext has the processor fetch what judgeNext needs of the records behind c, of which its slab
// has n bytes: it does not have these lines at hand, and there is time until the next record is
// looked at. Of that one the beginning has been fetched before, so its hash is read at once.
func (m *memory) fetchNext(c *cell, n int32) {
	if n <= 0 {
		return
	}
	next := (*cell)(unsafe.Add(unsafe.Pointer(c), c.size))
	if next.kind == isObject {
		hash := (*Object)(unsafe.Pointer(next)).hash
		m.store.table.fetch(hash)
		m.ghosts.fetch(hash)
	}
	if n > next.size {
		after := uintptr(unsafe.Pointer(next)) + uintptr(next.size)
		prefetch(after)
		prefetch(after + unsafe.Offsetof(Object{}.x))
	}
}

func (m *memory) drop(q *slabQueue, o *Object) {
	if q == &m.small {
		m.ghosts.add(o.hash)
	}
	m.evicted++
	m.store.evicted(o)
}

// carry copies an object, and its coded forms, to the front of a queue, and has lookups find it
// there. Who has the old one may go on to use it.
func (m *memory) carry(o *Object, where, hits uint32) {
	q := m.queue(where)
	_, p := m.room(q, int(o.size))
	to := (*Object)(p)
	to.hash, to.id = o.hash, o.id
	copy(rest(&to.cell, fixed), rest(&o.cell, fixed))
	to.seen.Store(o.seen.Load())
	to.staleAt.Store(o.staleAt.Load())
	for i := range o.forms {
		of := ref(o.forms[i].Load())
		if c := m.form(of); c != nil && !c.unwanted {
			at, p := m.room(q, int(c.size))
			copy(rest((*cell)(p), unsafe.Sizeof(cell{})), rest(&c.cell, unsafe.Sizeof(cell{})))
			(*cell)(p).kind = isForm
			c.unwanted = true
			m.waste(&c.cell)
			of = at
		}
		to.forms[i].Store(uint64(of))
	}
	to.move(where, hits)
	m.queue(o.where()).n--
	q.n++
	m.store.table.replace(&m.slots, o, to)
	o.move(nowhere, 0)
	m.waste(&o.cell)
}

// rest returns a record's bytes from an offset on.
func rest(c *cell, from uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(c), from)), uintptr(c.size)-from)
}
