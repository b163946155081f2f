package loop

import (
	"time"

	"github.com/lwango/lwango/timeoutwheel"
)

// stopper is the state of an orderly stop.
type stopper struct {
	loop     *Loop
	stopping bool
	killed   bool // the threads were killed, and no other may begin
	grace    timeoutwheel.Timer
}

func (s *stopper) init(l *Loop) {
	s.loop = l
	s.grace.Init(s)
}

// Expire implements timeoutwheel.Expirer: the grace period is over.
func (s *stopper) Expire() { s.loop.killAll() }

// Stop ends the loop's threads, so that Run returns. Idle threads run once more, and Stopping is
// true then: a listener accepts waiting connections, a connection reads what was sent. The other
// threads have the grace period to finish; negative: as long as they take. Then those that are left
// are killed, which runs their deferred calls. Any goroutine may call Stop. A second call can only
// shorten the grace period.
func (l *Loop) Stop(grace time.Duration) {
	_ = l.Post(func() {
		at := l.after(grace)
		if at != never && (!l.stop.grace.Pending() || at < l.stop.grace.At()) {
			l.wheel.Add(&l.stop.grace, at)
		}
		if l.stop.stopping {
			return
		}
		l.stop.stopping = true
		for _, t := range l.unattached {
			t.notifyFor(byStop)
		}
		l.wakeForStop(0)
	})
}

// wakeForStop wakes the threads with descriptors, from the given one on, because the loop stops. It
// wakes some at a time, and no more while threads are left over from the turn before: most of the
// woken threads are idle, and each closes a connection now. The requests in flight should not have
// to wait for that.
func (l *Loop) wakeForStop(fd int) {
	for n := 0; n < wakesPerTurn*slotsPerWake && l.turn.empty(); n++ {
		if fd >= len(l.table) {
			return
		}
		if d := l.table[fd]; d != nil && d.flags&shared == 0 {
			if d.thread.notifyFor(byStop); d.thread.co == nil {
				l.ready(d.thread, byStop)
			}
			n += slotsPerWake
		}
		fd++
	}
	_ = l.Post(func() { l.wakeForStop(fd) }) // refused: all threads were killed
}

// wakesPerTurn bounds how much longer a turn takes during a stop, to about a millisecond. Most
// slots of the table may be free: with several loops most descriptors belong to other loops. To
// check a slot is far cheaper than to close a connection, by slotsPerWake.
const (
	wakesPerTurn = 64
	slotsPerWake = 64
)

// Stopped returns a source that is ready once Stop was called, for threads of the loop that wait
// for an unlimited time. Any number of them may wait for it, at no cost: Stop notifies all threads
// that wait for sources.
func (l *Loop) Stopped() Source { return &l.stop }

// Watch implements Source.
func (s *stopper) Watch(*Thread) error { return nil }

// Ready implements Source.
func (s *stopper) Ready() bool { return s.stopping }

// Unwatch implements Source.
func (s *stopper) Unwatch(*Thread) {}

// Stopping reports whether Stop was called. Threads of the loop may call it.
func (l *Loop) Stopping() bool { return l.stop.stopping }

// killAll ends every thread at once. Deferred calls may start threads, attach sockets or post
// functions. These must not keep the loop going, so from now on the loop refuses them. Idle threads
// come last, and their BeforeEnd is called: it may send output of threads without a descriptor.
func (l *Loop) killAll() {
	l.stop.killed = true
	l.post.refuse()
	l.killOwners(func(t *Thread) bool { return t.co != nil })
	for n := len(l.unattached); n > 0; n = len(l.unattached) {
		l.kill(l.unattached[n-1])
		l.pulse.kills.Add(1)
	}
	l.killOwners(func(*Thread) bool { return true })
}

// killOwners ends the threads with a descriptor for which which returns true.
func (l *Loop) killOwners(which func(*Thread) bool) {
	for _, d := range l.table {
		if d != nil && d.flags&shared == 0 && which(d.thread) {
			l.kill(d.thread)
			l.pulse.kills.Add(1)
		}
	}
}

// StuckError is the error of a stop at which code holds a loop up, so that the loop cannot end.
type StuckError struct {
	Place string // file and line, as in a Stall; "" if it was not found
}

func (e *StuckError) Error() string {
	if e.Place == "" {
		return "a loop is held up and does not end"
	}
	return "a loop is held up and does not end: " + e.Place
}

// AwaitEnd waits, after Stop, until Run has returned. If code holds the loop up when the grace
// period is over, which is at the given time, nothing can end that code. So when no thread has
// ended for as long as patience, AwaitEnd logs the code's stack and returns a *StuckError. The loop
// may still end later. Any goroutine may call it.
func (l LoopLayer) AwaitEnd(over time.Time, patience time.Duration) error {
	timer := time.NewTimer(time.Until(over) + patience)
	defer timer.Stop()
	for kills := int64(0); ; {
		select {
		case <-l.ended:
			return nil
		case <-timer.C:
		}
		if n := l.pulse.kills.Load(); n != kills {
			kills = n
			timer.Reset(patience)
			continue
		}
		runs, suspended := runningStack(l.pulse.name)
		e := new(StuckError)
		if runs != nil {
			e.Place = runs.place()
		}
		l.log.Error("loop: held up, it does not end", append(append([]any{"place", e.Place},
			runs.hints(suspended)...), "stack", runs.String())...)
		return e
	}
}
