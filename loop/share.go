package loop

import (
	"time"

	"github.com/lwango/lwango/coro"
)

// share bounds the time that a part of a turn takes: the run queue, or the timers. Thousands of
// threads may become ready at once, and each may close a connection, which takes ten microseconds
// or more. Threads that are left over run in the next turn, after the loop has polled for events.
//
// A share is turnShare, after the first clockEvery threads. So a short turn never reads the clock.
type share struct {
	n     int
	since time.Time
	over  bool
}

const (
	turnShare  = time.Millisecond
	clockEvery = 8 // threads: reading the clock costs one percent of a small request
)

func (s *share) begin() { *s = share{} }

// count counts a thread that has run, and reports whether it was the last for this turn.
func (s *share) count() bool {
	switch s.n++; {
	case s.n == clockEvery:
		s.since = time.Now()
	case s.n%clockEvery == 0:
		s.over = time.Since(s.since) >= turnShare
	}
	return s.over
}

// lowPriorityPerTurn is how many threads of low priority go on in a turn of an overloaded loop.
const lowPriorityPerTurn = 4

// These are yielded with the code Yield; Yield yields 0.
const (
	lowPriority = 1 // by GiveWay
	inPlace     = 2 // by RunInPlace
)

// GiveWay is Yield for a thread that moves much data. t then has low priority: all threads that are
// ready, or become ready meanwhile, run before it goes on. If the loop's turns have no time for all
// of them, a few threads of low priority go on in each turn. So a small request passes thousands of
// long answers.
func (t ThreadLayer) GiveWay() { _ = t.wait(coro.Make(coro.Yield, lowPriority), never) }

// Overloaded reports whether more threads are ready than the loop's turn has time for: then each
// should run for a shorter time. It is called on the loop.
func (l LoopLayer) Overloaded() bool { return l.overloaded }

// runLowPriority resumes threads of low priority: each once at most, as far as a share of the turn
// goes, and a few if other threads have used the turn up.
func (l *Loop) runLowPriority() {
	last := l.lowPriority.tail
	if !l.overloaded {
		l.share.begin()
	}
	for n := 0; !l.lowPriority.empty() && (!l.overloaded || n < lowPriorityPerTurn); n++ {
		t := l.lowPriority.pop()
		if t.own.flags&ended == 0 {
			l.resume(t)
		}
		if l.share.count() && !l.overloaded || t == last {
			return
		}
	}
}
