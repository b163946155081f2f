package loop

import (
	"time"

	"github.com/lwango/lwango/coro"
)

// share is what a part of a turn may take: the run queue, or the timers. Thousands of threads may
// become ready at once, and each may close a connection, which takes ten microseconds or more. What
// is left of them goes on in the next turn, after the loop has polled for events.
//
// A share is turnShare, after the first clockEvery threads. So a short turn never asks for the
// time.
type share struct {
	n     int
	since time.Time
	over  bool
}

const (
	turnShare  = time.Millisecond
	clockEvery = 8 // threads: asking for the time costs one percent of a small request
)

func (s *share) begin() { *s = share{} }

// spent counts a thread that has run, and reports whether it was the last for this turn.
func (s *share) spent() bool {
	switch s.n++; {
	case s.n == clockEvery:
		s.since = time.Now()
	case s.n%clockEvery == 0:
		s.over = time.Since(s.since) >= turnShare
	}
	return s.over
}

// behindInCrowd is how many threads that gave way go on in a turn that has no time for all others.
const behindInCrowd = 4

// behind tells a GiveWay from a Yield.
const behind = 1

// GiveWay is Yield for a thread that moves much data. All threads that are ready, or become ready
// meanwhile, run before it goes on; only if the loop's turns have no time for all of them do a few
// of those that gave way go on in each. So a small request passes a crowd of long answers.
func GiveWay(t *Thread) { _ = t.wait(coro.Make(coro.Yield, behind), never) }

// Crowded reports whether more threads are ready than the loop's turn has time for: then each
// should take less of it. It is called on the loop.
func (l *Loop) Crowded() bool { return l.crowded }

// runBehind resumes threads that gave way: each once at most, as far as a share of the turn goes,
// and a few if others have used the turn up.
func (l *Loop) runBehind() {
	last := l.behind.tail
	if !l.crowded {
		l.share.begin()
	}
	for n := 0; !l.behind.empty() && (!l.crowded || n < behindInCrowd); n++ {
		t := l.behind.pop()
		if t.own.flags&ended == 0 {
			l.resume(t)
		}
		if l.share.spent() && !l.crowded || t == last {
			return
		}
	}
}
