package loop

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A loop shares Go's processors with the goroutines beside it, and calls the scheduler for their
// sake:
//
//   - A loop that does not block holds its processor. Goroutines that are queued there, and that no
//     idle processor steals, would wait for forced preemption, which comes after 10 ms.
//   - A loop that does block tells the scheduler so each time. That is cheap as long as the
//     scheduler leaves the processor with the waiting loop. But the handoff `direct` switches
//     goroutines without the scheduler. So to the runtime's monitor one goroutine has been running
//     all the time, and after 10 ms the monitor takes the processor away at each wait, and looks
//     for such waits every 20 µs.
//
// But if more goroutines compute than there are processors, runtime.Gosched puts the loop behind
// all of these, each of which runs for 10 ms. A loop that finds that so is contended. It calls
// Gosched seldom, and runs what it starts before it goes on, see batch.await.

const (
	// schedAfter is how long a loop goes on without a call of the scheduler, if that costs it nothing.
	// Each call wakes an idle processor, in vain, for some 10 µs.
	schedAfter = 8 * time.Millisecond

	// schedShare is the part of its time, one in so many, that a loop lets others run for by Gosched.
	schedShare = 20

	// schedLongest is the longest Gosched that counts: the machine may have stood still.
	schedLongest = 50 * time.Millisecond

	// contendedFrom is how long Gosched takes if others compute. A turn's goroutines seldom take as
	// long.
	contendedFrom = time.Millisecond
)

// beside is what a loop knows of the goroutines beside it. It belongs to the loop.
type beside struct {
	started   bool          // a goroutine, in this turn
	batch     *batch        // of these, what was started while the loop is contended
	contended bool          // by the last Gosched
	next      time.Duration // when Gosched is to be called again, by the loop's elapsed
}

// StartGoroutine runs f on a goroutine of its own, soon. Only the loop and its threads may call it.
//
// The go statement alone would do. But the goroutine then stands in the queue of the processor that
// the loop holds for the rest of the turn and while it waits, and another processor that wants to
// take it from there sleeps first. So the loop lets it run at the end of the turn.
func (l LoopLayer) StartGoroutine(f func()) {
	b := &l.beside
	b.started = true
	switch {
	case !b.contended:
		go f()
		return
	case b.batch == nil:
		b.batch = &batch{begun: make(chan struct{})}
	}
	b.batch.start(f)
}

// runStarted lets the goroutines run that were started in this turn.
func (l *Loop) runStarted() {
	switch b := &l.beside; {
	case !b.started:
		return
	case b.batch != nil:
		b.batch.await()
		b.batch = nil
	default:
		l.gosched()
	}
	l.beside.started = false
}

// batch is what a contended loop has started in one turn. The loop waits until each of these
// goroutines has returned, waits, or has computed for 10 ms. They stand in the queue of the loop's
// processor, and the last one puts behind itself what wakes the loop, so no other goroutine comes
// between.
type batch struct {
	size    int32        // the loop's
	waiting atomic.Int32 // those that have begun; less size, once the loop waits
	begun   chan struct{}
}

// start starts f.
func (b *batch) start(f func()) {
	b.size++
	go func() {
		if b.waiting.Add(1) == 0 {
			go close(b.begun)
		}
		f()
	}()
}

// await waits until all have begun, and the last one no longer runs.
func (b *batch) await() {
	if b.waiting.Add(-b.size) < 0 {
		<-b.begun
	}
}

// goschedNowAndThen calls Gosched if the time for that has come.
func (l *Loop) goschedNowAndThen() {
	if l.elapsed >= l.beside.next {
		l.gosched()
	}
}

// gosched calls the scheduler, and finds out whether the loop is contended.
func (l *Loop) gosched() {
	l.tick()
	before := l.elapsed
	runtime.Gosched()
	l.tick()
	took := l.elapsed - before
	l.beside.contended = took >= contendedFrom
	l.beside.next = l.elapsed + max(schedAfter, schedShare*min(took, schedLongest))
}
