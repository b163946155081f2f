package pubsub

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// group is the subscriptions of a log on one loop. A publisher posts to the loop, once in a burst,
// and the loop notifies the threads that wait for one of the subscriptions.
type group struct {
	log    *log
	loop   *loop.Loop
	post   func()         // notifyWaiting, made once
	next   loop.Broadcast // of those that notifyWaiting has found
	posted atomic.Bool    // notifyWaiting is posted
	busy   atomic.Bool    // it has begun to notify, and has not ended
	idle   atomic.Int32   // how many wait and were not notified

	// The loop's: how many there are, and their state. Those that wait are in one line, and those that
	// are to be notified in the other. What is published while some are still to be notified is for
	// those that wait by then, in the next round: again is set.
	members int32
	share   int32 // of a shared log: how many of those that wait are to be notified
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
	nowhere  place = 2 // nobody waits for it
	notified place = 3 // its thread was notified, and has not asked yet
)

func newGroup(l *log, on *loop.Loop) *group {
	g := &group{log: l, loop: on}
	g.post, g.next.Next = g.notifyWaiting, g.notifyNext
	return g
}

// notifyWaiting notifies the threads that wait.
func (g *group) notifyWaiting() {
	g.busy.Store(true)
	g.posted.Store(false) // before they ask
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

// notifyNext returns the next thread that is to be notified, or nil.
func (g *group) notifyNext() *loop.Thread {
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
		if g.share = 0; g.log.shared() { // those that were waiting are at something else by now
			g.log.wake()
		}
		g.busy.Store(false)
		return nil
	}
	g.remove(s)
	s.place = notified
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
		l.first, s.prev, s.next = s, s, s
		return
	}
	s.prev, s.next = l.first.prev, l.first
	s.prev.next, s.next.prev = s, s
}

func (l *line) remove(s *Subscription) {
	switch {
	case s.next == s:
		l.first = nil
	case s == l.first:
		l.first = s.next
	}
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
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

// wake posts to the loops. A loop that has stopped has no threads to notify.
func (gs groups) wake() {
	for _, g := range gs {
		g.call()
	}
}

// notifying reports whether some that wait may not have been notified yet. Any goroutine may call
// it.
func (g *group) notifying() bool { return g.posted.Load() || g.busy.Load() }

func (g *group) call() {
	if g.posted.CompareAndSwap(false, true) {
		_ = g.loop.Post(g.post)
	}
}

// wakeSome posts to loops on which n subscriptions wait together, or for all if there are not so
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
