package pubsub

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// group is the subscriptions of a log on one loop. A publisher rings for the loop, once in a burst,
// and the loop tells the threads that wait for one of the subscriptions.
type group struct {
	log  *log
	loop *loop.Loop
	ring func()         // look, made once
	next loop.Broadcast // of those that look has found
	rung atomic.Bool    // look is posted
	busy atomic.Bool    // it has begun to tell, and has not ended
	idle atomic.Int32   // how many wait and were not told

	// The loop's: how many there are, and their state. Those that wait are in one line, and those that
	// are to be told in the other. What is published while some are still to be told is for those that
	// wait by then, in the next round: again is set.
	members int32
	share   int32 // of a shared log: how many of those that wait are to be told
	lines   [2]line
	wait    place // line of those that wait
	again   bool

	// How many have passed all messages before the one with this number: they wait for that, or have
	// done so.
	calm   int32
	number uint32 // without its upper bits

	// Under the log's lock.
	passed uint64 // before which number all have
	end    uint64 // what Remaining gives comes before this number; 0: nobody has asked
}

// place is where a subscription is: in one of its group's lines, or in none.
type place uint8

const (
	nowhere place = 2 // nobody waits for it
	told    place = 3 // its thread was notified, and has not looked yet
)

func newGroup(l *log, on *loop.Loop) *group {
	g := &group{log: l, loop: on}
	g.ring, g.next.Next = g.look, g.tell
	return g
}

// look has those told that wait.
func (g *group) look() {
	g.busy.Store(true)
	g.rung.Store(false) // before they look
	if !g.log.shared() {
		if due := 1 - g.wait; g.lines[due].first == nil {
			g.wait = due
		} else {
			g.again = true
		}
	} else {
		g.share = int32(min(g.log.unread(), math.MaxInt32))
	}
	g.next.Begin(g.loop)
}

// tell returns the next thread that is to be told, or nil.
func (g *group) tell() *loop.Thread {
	at := 1 - g.wait
	switch {
	case g.log.shared():
		if at = g.wait; g.share == 0 {
			g.busy.Store(false)
			return nil
		}
		g.share--
	case g.lines[at].first == nil && g.again:
		g.again = false
		at, g.wait = g.wait, at
	}
	s := g.lines[at].first
	if s == nil {
		if g.share = 0; g.log.shared() { // those for whom it was rung are at something else by now
			g.log.wake()
		}
		g.busy.Store(false)
		return nil
	}
	g.remove(s)
	s.place = told
	return s.waiter
}

// add puts a subscription, for which a thread begins to wait, at the end of the line.
func (g *group) add(s *Subscription) {
	s.place = g.wait
	g.lines[s.place].push(s)
	g.idle.Add(1)
}

// remove undoes add.
func (g *group) remove(s *Subscription) {
	g.lines[s.place].remove(s)
	s.place = nowhere
	g.idle.Add(-1)
}

// pass notes that s has passed all messages, and waits.
func (g *group) pass(s *Subscription) {
	at := uint32(s.at)
	if !s.plain() || s.passed == at {
		return
	}
	if g.number != at {
		g.number, g.calm = at, 0
	}
	s.passed = at
	if g.calm++; g.calm == g.members {
		g.log.pass(g, s.at)
	}
}

// line is a list of subscriptions. It is a ring: the last one is before the first.
type line struct{ first *Subscription }

func (l *line) push(s *Subscription) {
	if l.first == nil {
		l.first, s.before, s.behind = s, s, s
		return
	}
	s.before, s.behind = l.first.before, l.first
	s.before.behind, s.behind.before = s, s
}

func (l *line) remove(s *Subscription) {
	switch {
	case s.behind == s:
		l.first = nil
	case s == l.first:
		l.first = s.behind
	}
	s.before.behind, s.behind.before = s.behind, s.before
	s.before, s.behind = nil, nil
}

// groups are those of a log. They are never changed, but replaced.
type groups []*group

// with returns the groups with one for a loop, and that.
func (gs groups) with(l *log, on *loop.Loop) (groups, *group) {
	for _, g := range gs {
		if g.loop == on {
			return gs, g
		}
	}
	g := newGroup(l, on)
	return append(slices.Clip(gs), g), g
}

func (gs groups) without(g *group) groups {
	return slices.DeleteFunc(slices.Clone(gs), func(o *group) bool { return o == g })
}

// wake rings for the loops. A loop that has stopped has no threads to be told.
func (gs groups) wake() {
	for _, g := range gs {
		g.call()
	}
}

// telling reports whether some that wait may not have been told yet. Any goroutine may call it.
func (g *group) telling() bool { return g.rung.Load() || g.busy.Load() }

func (g *group) call() {
	if g.rung.CompareAndSwap(false, true) {
		_ = g.loop.Post(g.ring)
	}
}

// wakeSome rings for loops on which n subscriptions wait together, or for all if there are not so
// many. from chooses the first.
func (gs groups) wakeSome(n int, from uint64) {
	for i := range gs {
		if n <= 0 {
			return
		}
		g := gs[(from+uint64(i))%uint64(len(gs))]
		if idle := int(g.idle.Load()); idle > 0 {
			g.call()
			n -= idle
		}
	}
}
