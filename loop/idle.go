package loop

import (
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
)

// idleList is the threads of a loop that may be ended to make room, in the order in which they
// became idle. It is linked by descriptor numbers, which the table leads back to threads: an idle
// thread is little more than its record, and two pointers would be a tenth of that.
//
// A thread that is no longer idle stays in the list until it waits. If it is the first then, or
// becomes the first later, it leaves the list, and enters it again when it becomes idle. So
// the first in the list is idle as far as the loop has seen. A thread that becomes idle again
// without a wait, as after most requests, moves to the end if it has not moved for a second.
// So a connection in use costs two comparisons for each request, and the order is right to a
// second.
type idleList struct {
	first, last int32        // descriptors; -1: none
	since       atomic.Int64 // when the first became idle, in Unix milliseconds; 0: none
}

// idleEntry is a thread's entry in the list, if its flag listed is set.
type idleEntry struct {
	prev, next    int32  // the neighbours' descriptors; -1: none
	since         uint32 // in idleUnits since the loop was made: enough for 34 years
	evenWithInput bool   // it may be ended even if its peer has sent something
}

// idleUnit is the unit of idleEntry.since, as a shift of milliseconds: 256 ms.
const idleUnit = 8

// MarkIdle enters t into the list of the threads that EndIdle may end: t has been idle since the
// given time, or is about to be idle. EndIdle spares a thread whose peer has sent something, unless
// evenWithInput is set. A task calls it before it returns.
func (t ThreadLayer) MarkIdle(since time.Time, evenWithInput bool) {
	l := t.loop
	at := uint32(max(l.Layer().Clock(since).Milliseconds(), 0) >> idleUnit)
	if t.own.flags&listed != 0 {
		if at < t.idle.since+early>>idleUnit {
			t.idle.evenWithInput = evenWithInput
			return
		}
		l.unlist(t.Thread)
	}
	if t.own.fd < 0 {
		return
	}
	t.own.flags |= listed
	t.idle = idleEntry{prev: l.idle.last, next: -1, since: at, evenWithInput: evenWithInput}
	if last := l.idle.last; last >= 0 {
		l.table[last].thread.idle.next = t.own.fd
	} else {
		l.idle.first = t.own.fd
		l.publishIdle()
	}
	l.idle.last = t.own.fd
}

// UnmarkIdle takes t out of that list: t is at work although it holds no coroutine, because
// other threads work for its client. A task calls it before it returns.
func (t ThreadLayer) UnmarkIdle() {
	if t.own.flags&listed != 0 {
		t.loop.unlist(t.Thread)
	}
}

// unlist takes t out of the list. If t is the first, it takes out the running ones directly after
// it as well.
func (l *Loop) unlist(t *Thread) {
	l.removeIdleEntry(t)
	if t.idle.prev >= 0 {
		return
	}
	for l.idle.first >= 0 && l.table[l.idle.first].thread.co != nil {
		l.removeIdleEntry(l.table[l.idle.first].thread)
	}
	l.publishIdle()
}

// unlistIfFirst takes a thread that waits out of the list if it is the first.
func (l *Loop) unlistIfFirst(t *Thread) {
	if t.own.flags&listed != 0 && t.own.fd == l.idle.first {
		l.unlist(t)
	}
}

func (l *Loop) removeIdleEntry(t *Thread) {
	prev, next := t.idle.prev, t.idle.next
	if invariants.Enabled {
		if t.own.flags&listed == 0 ||
			prev >= 0 && l.table[prev].thread.idle.next != t.own.fd ||
			prev < 0 && l.idle.first != t.own.fd ||
			next >= 0 && l.table[next].thread.idle.prev != t.own.fd ||
			next < 0 && l.idle.last != t.own.fd {
			panic("loop: the list of idle threads is broken")
		}
	}
	t.own.flags &^= listed
	if next >= 0 {
		l.table[next].thread.idle.prev = prev
	} else {
		l.idle.last = prev
	}
	if prev >= 0 {
		l.table[prev].thread.idle.next = next
	} else {
		l.idle.first = next
	}
}

func (l *Loop) publishIdle() {
	since := int64(0)
	if l.idle.first >= 0 {
		since = l.start.UnixMilli() + int64(l.table[l.idle.first].thread.idle.since)<<idleUnit
	}
	l.idle.since.Store(since)
}

// IdleSince returns when the first of the threads that EndIdle would look at became idle, in Unix
// milliseconds, to compare loops by. ok is false if there is none. Any goroutine may call it.
func (l LoopLayer) IdleSince() (ms int64, ok bool) {
	ms = l.idle.since.Load()
	return ms, ms != 0
}

// EndIdle ends the thread of the list that has been idle longest, and reports whether there was
// one. A thread is not idle if its peer has sent something that the thread has not seen yet.
// EndIdle is called on the loop.
func (l LoopLayer) EndIdle() bool {
	for l.idle.first >= 0 {
		if l.endIdle(l.table[l.idle.first].thread) {
			return true
		}
	}
	return false
}

// endIdle takes t out of the list, ends it if it is idle, and reports that.
func (l *Loop) endIdle(t *Thread) bool {
	l.unlist(t)
	switch {
	case t.co != nil:
	case t.idle.evenWithInput:
		l.end(t)
		return true
	case t.own.flags&queued != 0 && !t.own.edges.outside(): // else it is one of AttachReady's
	case sysio.Unread(int(t.own.fd)):
		l.ready(t, byEvent)
	default:
		l.dismiss(t)
		return true
	}
	return false
}

// Idle is a thread that was in the list of those that may be ended.
type Idle struct {
	fd    int32
	since uint32
}

// IdleThreads returns the threads of the list whose tasks are of some kind, the one that has been
// idle longest first, and how many threads it has scanned at, which are all of the list. It is
// called on the loop.
func (l LoopLayer) IdleThreads(kind func(Task) bool) (all []Idle, scanned int) {
	for fd := l.idle.first; fd >= 0; scanned++ {
		t := l.table[fd].thread
		if kind(t.task) {
			all = append(all, Idle{fd, t.idle.since})
		}
		fd = t.idle.next
	}
	return all, scanned
}

// EndIdleThread is EndIdle for a thread that IdleThreads has returned, and reports whether it has
// ended that one. It leaves it alone if it has had something to do since, or is of another kind:
// another thread may have the descriptor's number by now. It is called on the loop.
func (l LoopLayer) EndIdleThread(i Idle, kind func(Task) bool) bool {
	if int(i.fd) >= len(l.table) || l.table[i.fd] == nil {
		return false
	}
	t := l.table[i.fd].thread
	return t != nil && t.own.fd == i.fd && t.own.flags&listed != 0 && t.idle.since == i.since &&
		kind(t.task) && l.endIdle(t)
}
