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
	log        *log
	loop       *loop.Loop
	post       func()         // notifyWaiting, made once
	broadcast  loop.Broadcast // of those that notifyWaiting has found
	posted     atomic.Bool    // notifyWaiting is posted
	busy       atomic.Bool    // it has begun to notify, and has not ended
	unnotified atomic.Int32   // how many wait and were not notified

	// The loop's: the number of subscriptions, and their state. Those that wait are in one line, and
	// those that are to be notified in the other. If a message is published while some are still to be
	// notified, again is set, and those that wait by then are notified next.
	members  int32
	toNotify int32 // of a shared log: how many of those that wait are to be notified
	lines    [2]line
	waiting  place // line of those that wait
	again    bool

	// caughtUp is how many subscriptions have read all messages before the number caughtUpTo.
	caughtUp   int32
	caughtUpTo uint32 // without its upper bits

	// Under the log's lock.
	passed       uint64 // before which number all have
	remainingEnd uint64 // what Remaining gives comes before this number; 0: nobody has asked
}

// place is where a subscription is: in one of its group's lines, or in none.
type place uint8

const (
	nowhere  place = 2 // no thread waits for it
	notified place = 3 // its thread was notified, and has not called Ready yet
)

func newGroup(l *log, on *loop.Loop) *group {
	g := &group{log: l, loop: on}
	g.post, g.broadcast.Next = g.notifyWaiting, g.notifyNext
	return g
}

// notifyWaiting notifies the threads that wait.
func (g *group) notifyWaiting() {
	g.busy.Store(true)
	g.posted.Store(false) // before the threads call Ready
	if !g.log.shared() {
		if due := 1 - g.waiting; g.lines[due].first == nil {
			g.waiting = due
		} else {
			g.again = true
		}
	} else {
		g.toNotify = int32(min(g.log.unread(), math.MaxInt32))
	}
	g.broadcast.Begin(g.loop)
}

// notifyNext returns the next thread that is to be notified, or nil.
func (g *group) notifyNext() *loop.Thread {
	at := 1 - g.waiting
	switch {
	case g.log.shared():
		if at = g.waiting; g.toNotify == 0 {
			g.busy.Store(false)
			return nil
		}
		g.toNotify--
	case g.lines[at].first == nil && g.again:
		g.again = false
		at, g.waiting = g.waiting, at
	}
	s := g.lines[at].first
	if s == nil {
		if g.toNotify = 0; g.log.shared() { // subscriptions that waited do not wait any more
			g.log.wake()
		}
		g.busy.Store(false)
		return nil
	}
	g.remove(s)
	s.place = notified
	return s.waiter
}

// add puts a subscription for which a thread begins to wait at the end of the line.
func (g *group) add(s *Subscription) {
	s.place = g.waiting
	g.lines[s.place].push(s)
	g.unnotified.Add(1)
}

// remove undoes add.
func (g *group) remove(s *Subscription) {
	g.lines[s.place].remove(s)
	s.place = nowhere
	g.unnotified.Add(-1)
}

// notePassed notes that s has read all messages, and waits.
func (g *group) notePassed(s *Subscription) {
	at := uint32(s.at)
	if !s.byPosition() || s.passed == at {
		return
	}
	if g.caughtUpTo != at {
		g.caughtUpTo, g.caughtUp = at, 0
	}
	s.passed = at
	if g.caughtUp++; g.caughtUp == g.members {
		g.log.groupPassed(g, s.at)
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

// groups are the groups of a log. The slice is never changed, but replaced.
type groups []*group

// with returns gs with a group for a loop, and that group.
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

// notifying reports whether some subscriptions that wait may not have been notified yet. Any
// goroutine may call it.
func (g *group) notifying() bool { return g.posted.Load() || g.busy.Load() }

func (g *group) call() {
	if g.posted.CompareAndSwap(false, true) {
		_ = g.loop.Post(g.post)
	}
}

// wakeSome posts to loops on which n subscriptions wait together, or to all loops if fewer wait.
// from chooses the first loop.
func (gs groups) wakeSome(n int, from uint64) {
	for i := range gs {
		if n <= 0 {
			return
		}
		g := gs[(from+uint64(i))%uint64(len(gs))]
		if idle := int(g.unnotified.Load()); idle > 0 {
			g.call()
			n -= idle
		}
	}
}
