package loop

import "github.com/lwango/lwango/coro"

// queue is a list of threads that are to run, first in, first out.
type queue struct{ head, tail *Thread }

func (q *queue) empty() bool { return q.head == nil }

func (q *queue) push(t *Thread) {
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
}

// append moves all threads of other to the end of q.
func (q *queue) append(other *queue) {
	switch {
	case other.empty():
		return
	case q.empty():
		*q = *other
	default:
		q.tail.next, q.tail = other.head, other.tail
	}
	*other = queue{}
}

// pop takes the first thread off a queue that is not empty.
func (q *queue) pop() *Thread {
	t := q.head
	if q.head, t.next = t.next, nil; q.head == nil {
		q.tail = nil
	}
	t.own.flags &^= queued
	return t
}

// ready puts a waiting thread into the run queue. A running thread is not waiting, although it may
// be the thread of a descriptor that it is closing: to wake it would cut its next wait short.
func (l *Loop) ready(t *Thread, why wakeReason) { l.enqueue(&l.runq, t, why) }

// enqueue is ready for one of the loop's queues.
func (l *Loop) enqueue(q *queue, t *Thread, why wakeReason) {
	if t.own.flags&(queued|ended) != 0 || t == l.current {
		return
	}
	t.own.flags = t.own.flags.next(coro.Resume) | queued
	t.wokenBy = why
	t.until = never
	q.push(t)
}

// runQueued resumes the threads that are in the run queue now, until their share of the turn is
// used up. The rest runs in the next turn, before the threads that were queued meanwhile, and
// before those that WakeThisTurn adds, so that these do not keep others waiting. It reports whether
// another goroutine has become the loop.
func (l *Loop) runQueued() (replaced bool) {
	l.turn.append(&l.runq)
	l.share.begin()
	l.places.open = true
	if l.runTurn() {
		return true
	}
	l.places.open = false
	l.sendPutOffs()
	l.overloaded = !l.turn.empty()
	l.runBroadcasts()
	l.runLowPriority()
	return false
}

// runTurn resumes threads of the turn until none is left, or the share is spent. It reports whether
// another goroutine has become the loop.
func (l *Loop) runTurn() (replaced bool) {
	for !l.turn.empty() && !l.share.over {
		if t := l.turn.pop(); t.own.flags&ended == 0 && l.resume(t) {
			return true
		}
		l.share.count()
	}
	return false
}
