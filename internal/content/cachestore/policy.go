package cachestore

import (
	"sync/atomic"
	"unsafe"
)

// fileQueues have the files of a disk, and decide which of them is evicted: S3-FIFO (Yang et al.,
// SOSP 2023). A new file waits in the small queue, which has a tenth of the disk. Only a file that
// is used there again gets into the main queue. So a scan passes through the small queue and evicts
// nothing from the main one. The hash of a file that has left the small queue is remembered for a
// while: if the same key comes again, its file goes to the main queue at once. The main queue gives
// a file that was used another round.
//
// A use is a count up to 3 in the object itself. So a popular object costs a load, and no processor
// has to fetch a line that another one has written. The holder of Store.mu does all else.
type fileQueues struct {
	bounds

	small, main queue
	ghosts      ghosts
	evict       func(*file)      // forgets a member, which is out of the queues already
	busy        func(*file) bool // a member is being sent: its eviction would give nothing back

	evicted uint64
}

// links are what a file in fileQueues has.
type links struct {
	prev, next *file
	cost       int64 // bytes
	uses
}

// Where a member is.
const (
	nowhere = iota
	inSmall
	inMain
)

// uses is what eviction knows of an object, or a file: uses in two bits, up to 3, and where it is.
type uses struct{ state atomic.Uint32 }

// hit counts a use.
func (l *uses) hit() {
	if n := l.state.Load(); n&3 < 3 {
		l.state.CompareAndSwap(n, n+1) // a race loses one of two uses
	}
}

// where says where the member is.
func (l *uses) where() uint32 { return l.state.Load() >> 2 }

// hits returns the uses that are counted.
func (l *uses) hits() uint32 { return l.state.Load() & 3 }

// move notes where the member is, and that it has had so many uses. Those that come just then are
// lost.
func (l *uses) move(where, hits uint32) { l.state.Store(where<<2 | hits) }

// queue is a list of members. New ones come in front.
type queue struct {
	first, last *file
	n           int64
	bytes       int64
}

func (p *fileQueues) push(q *queue, x *file, where, hits uint32) {
	l := &x.in
	l.move(where, hits)
	l.prev, l.next = nil, q.first
	if q.first != nil {
		q.first.in.prev = x
	} else {
		q.last = x
	}
	q.first = x
	q.n++
	q.bytes += l.cost
}

func (p *fileQueues) pull(q *queue, x *file) {
	l := &x.in
	if l.prev != nil {
		l.prev.in.next = l.next
	} else {
		q.first = l.next
	}
	if l.next != nil {
		l.next.in.prev = l.prev
	} else {
		q.last = l.prev
	}
	l.prev, l.next = nil, nil
	l.move(nowhere, 0)
	q.n--
	q.bytes -= l.cost
}

// add makes x a member, whose cost is set, and makes room.
func (p *fileQueues) add(x *file) {
	p.used += x.in.cost
	if p.ghosts.take(x.hash, p.small.n+p.main.n) {
		p.push(&p.main, x, inMain, 0)
	} else {
		p.push(&p.small, x, inSmall, 0)
	}
	p.shrink()
}

// remove ends x's membership, if it is a member.
func (p *fileQueues) remove(x *file) bool {
	l := &x.in
	switch l.where() {
	case inSmall:
		p.pull(&p.small, x)
	case inMain:
		p.pull(&p.main, x)
	default:
		return false
	}
	p.used -= l.cost
	return true
}

func (p *fileQueues) reserve(n int64, force bool) bool {
	return p.bounds.reserve(n, force, p.shrink)
}

// shrink evicts until the rest fits, if need be the member that has just come. Members that are
// being sent stay.
func (p *fileQueues) shrink() {
	for busy := int64(0); p.full() && busy < p.small.n+p.main.n; {
		if p.step(busy > 0) {
			busy = 0
		} else {
			busy++
		}
	}
}

// step moves one member, on or out. It reports false for one that is being sent, and so stays.
// small says to take one of the small queue, if there is one.
func (p *fileQueues) step(small bool) bool {
	x := p.small.last
	fromSmall := x != nil && (small || p.small.bytes > p.limit/10 || p.main.n == 0)
	if !fromSmall {
		x = p.main.last
	}
	if p.busy(x) {
		hits := x.in.hits()
		if fromSmall {
			p.pull(&p.small, x)
		} else {
			p.pull(&p.main, x)
		}
		p.push(&p.main, x, inMain, hits)
		return false
	}
	if fromSmall {
		used := x.in.hits() > 0
		p.pull(&p.small, x)
		if used {
			p.push(&p.main, x, inMain, 0)
			return true
		}
		p.ghosts.add(x.hash)
		p.drop(x)
		return true
	}
	hits := x.in.hits()
	p.pull(&p.main, x)
	if hits > 0 {
		p.push(&p.main, x, inMain, hits-1)
		return true
	}
	p.drop(x)
	return true
}

func (p *fileQueues) drop(x *file) {
	p.used -= x.in.cost
	p.evicted++
	p.evict(x)
}

// ghosts are what was evicted from the small queue lately: 32 bits of its id each, so that one of a
// million new ones is taken for one of them.
type ghosts struct {
	slots []ghost // sets of four
	now   uint32  // how many were added
}

type ghost struct{ id, at uint32 }

func newGhosts(limit int64) ghosts {
	n := 256
	for int64(n) < limit/(4<<10) && n < 1<<22 {
		n *= 2
	}
	return ghosts{slots: make([]ghost, n)}
}

// size is what they take of memory, in bytes.
func (g *ghosts) size() int64 { return int64(len(g.slots)) * int64(unsafe.Sizeof(ghost{})) }

func (g *ghosts) set(id uint64) []ghost {
	i := int(id) & (len(g.slots) - 1) &^ 3
	return g.slots[i : i+4]
}

// fetch has the processor fetch what add and take need of an id.
func (g *ghosts) fetch(id uint64) { prefetch(uintptr(unsafe.Pointer(&g.set(id)[0]))) }

// add adds an id, in the place of the oldest one of its set.
func (g *ghosts) add(id uint64) {
	g.now++
	set := g.set(id)
	oldest := &set[0]
	for i := range set[1:] {
		if g.now-set[i+1].at > g.now-oldest.at {
			oldest = &set[i+1]
		}
	}
	*oldest = ghost{id: uint32(id >> 32), at: g.now}
}

// take reports whether an id is among the last n that were added, and forgets it.
func (g *ghosts) take(id uint64, n int64) bool {
	for i, x := range g.set(id) {
		if x.at != 0 && x.id == uint32(id>>32) && int64(g.now-x.at) <= n {
			g.set(id)[i] = ghost{}
			return true
		}
	}
	return false
}
