package cachestore

import "sync/atomic"

// A place is memory or a disk, and decides what is evicted from it: S3-FIFO (Yang et al., SOSP
// 2023). What is new waits in a small queue, a tenth of the place. Only what is used there again gets
// into the main queue. So a scan passes through the small one and washes nothing out. What has left
// the small queue is remembered for a while: if it comes again, it was worth more, and goes to the
// main queue at once. The main queue gives what was used another round.
//
// A use is a count up to 3 in the object itself. So a popular object costs a load, and no processor
// has to fetch a line that another one has written. The holder of Store.mu does all else.
type place[T any, P interface {
	*T
	links() *links[T]
	ghost() uint64 // what it is known by if it comes again
	joined()       // it has become a member
	left()         // it is none any more
}] struct {
	limit   int64 // bytes
	used    int64 // by members, and reserved
	held    int64 // of used, what is reserved
	passing int64 // of held, what evicts nothing, since it is not going to be kept
	gone    int64 // of used, what was of members, and is sent still

	small, main queue[T]
	ghosts      ghosts
	evict       func(*T)      // forgets a member, which is out of the queues already
	busy        func(*T) bool // a member is being sent: its eviction would give nothing back

	evicted uint64
}

// links are what a member of a place has.
type links[T any] struct {
	prev, next *T
	cost       int64         // bytes
	state      atomic.Uint32 // uses in two bits, up to 3, and where it is
	mark       atomic.Uint32 // the owner's; it costs nothing here
}

// Where a member is.
const (
	nowhere = iota
	inSmall
	inMain
)

// hit counts a use.
func (l *links[T]) hit() {
	if n := l.state.Load(); n&3 < 3 {
		l.state.CompareAndSwap(n, n+1) // a race loses one of two uses
	}
}

// where says where the member is.
func (l *links[T]) where() uint32 { return l.state.Load() >> 2 }

// hits returns the uses that are counted.
func (l *links[T]) hits() uint32 { return l.state.Load() & 3 }

// move notes where the member is, and that it has had so many uses. Those that come just then are
// lost.
func (l *links[T]) move(where, hits uint32) { l.state.Store(where<<2 | hits) }

// queue is a list of members. New ones come in front.
type queue[T any] struct {
	first, last *T
	n           int64
	bytes       int64
}

func (p *place[T, P]) push(q *queue[T], x *T, where, hits uint32) {
	l := P(x).links()
	l.move(where, hits)
	l.prev, l.next = nil, q.first
	if q.first != nil {
		P(q.first).links().prev = x
	} else {
		q.last = x
	}
	q.first = x
	q.n++
	q.bytes += l.cost
}

func (p *place[T, P]) pull(q *queue[T], x *T) {
	l := P(x).links()
	if l.prev != nil {
		P(l.prev).links().next = l.next
	} else {
		q.first = l.next
	}
	if l.next != nil {
		P(l.next).links().prev = l.prev
	} else {
		q.last = l.prev
	}
	l.prev, l.next = nil, nil
	l.move(nowhere, 0)
	q.n--
	q.bytes -= l.cost
}

// add makes x a member, whose cost is set, and makes room.
func (p *place[T, P]) add(x *T) {
	p.used += P(x).links().cost
	P(x).joined()
	if p.ghosts.take(P(x).ghost(), p.small.n+p.main.n) {
		p.push(&p.main, x, inMain, 0)
	} else {
		p.push(&p.small, x, inSmall, 0)
	}
	p.shrink()
}

// remove ends x's membership, if it is a member.
func (p *place[T, P]) remove(x *T) bool {
	l := P(x).links()
	switch l.where() {
	case inSmall:
		p.pull(&p.small, x)
	case inMain:
		p.pull(&p.main, x)
	default:
		return false
	}
	p.used -= l.cost
	P(x).left()
	return true
}

// grow makes a member n bytes larger.
func (p *place[T, P]) grow(x *T, n int64) {
	l := P(x).links()
	switch l.where() {
	case inSmall:
		p.small.bytes += n
	case inMain:
		p.main.bytes += n
	default:
		return
	}
	l.cost += n
	p.used += n
	p.shrink()
}

// replace puts y where x was: it inherits x's uses.
func (p *place[T, P]) replace(x, y *T) {
	where, hits := P(x).links().where(), P(x).links().hits()
	p.remove(x)
	p.used += P(y).links().cost
	P(y).joined()
	if where == inMain {
		p.push(&p.main, y, inMain, hits)
	} else {
		p.push(&p.small, y, inSmall, hits)
	}
	p.shrink()
}

// reserve takes n bytes for what is on its way to be kept. It refuses if half of the place is
// reserved so, or what is sent just now leaves no room, unless forced.
func (p *place[T, P]) reserve(n int64, force bool) bool {
	if !force && p.held-p.passing+n > p.limit/2 {
		return false
	}
	p.held += n
	p.used += n
	if p.shrink(); !force && p.full() {
		p.held -= n
		p.used -= n
		return false
	}
	return true
}

// pass takes n bytes for what is not going to be kept. It evicts nothing.
func (p *place[T, P]) pass(n int64) {
	p.held += n
	p.passing += n
	p.used += n
}

// release gives back n bytes, of which so many were taken by pass.
func (p *place[T, P]) release(n, passing int64) {
	p.held -= n
	p.passing -= passing
	p.used -= n
}

// tight reports whether half of the place is reserved, or passes.
func (p *place[T, P]) tight() bool { return p.held > p.limit/2 }

// full reports whether there is more than fits.
func (p *place[T, P]) full() bool { return p.used-p.passing > p.limit }

// shrink evicts until the rest fits, if need be the member that has just come. Members that are being
// sent stay.
func (p *place[T, P]) shrink() {
	for busy := int64(0); p.full() && busy < p.small.n+p.main.n; {
		if p.step(busy > 0) {
			busy = 0
		} else {
			busy++
		}
	}
}

// step moves one member, on or out. It reports false for one that is being sent, and so stays. small
// says to take one of the small queue, if there is one.
func (p *place[T, P]) step(small bool) bool {
	x := p.small.last
	fromSmall := x != nil && (small || p.small.bytes > p.limit/10 || p.main.n == 0)
	if !fromSmall {
		x = p.main.last
	}
	if p.busy(x) {
		hits := P(x).links().hits()
		if fromSmall {
			p.pull(&p.small, x)
		} else {
			p.pull(&p.main, x)
		}
		p.push(&p.main, x, inMain, hits)
		return false
	}
	if fromSmall {
		used := P(x).links().hits() > 0
		p.pull(&p.small, x)
		if used {
			p.push(&p.main, x, inMain, 0)
			return true
		}
		p.ghosts.add(P(x).ghost())
		p.drop(x)
		return true
	}
	hits := P(x).links().hits()
	p.pull(&p.main, x)
	if hits > 0 {
		p.push(&p.main, x, inMain, hits-1)
		return true
	}
	p.drop(x)
	return true
}

// leave counts n bytes of what was a member until it is sent, and settle gives them back.
func (p *place[T, P]) leave(n int64) {
	p.used += n
	p.gone += n
}

func (p *place[T, P]) settle(n int64) {
	p.used -= n
	p.gone -= n
}

func (p *place[T, P]) drop(x *T) {
	p.used -= P(x).links().cost
	P(x).left()
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

func (g *ghosts) set(id uint64) []ghost {
	i := int(id) & (len(g.slots) - 1) &^ 3
	return g.slots[i : i+4]
}

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
