package loop

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/timeoutwheel"
)

// NextFlags is the table step, for the test against a reference.
func NextFlags(f uint32, c coro.Code) uint32 { return uint32(flags(f).next(c)) }

// Bits of the flags word.
const (
	Suspended = uint32(suspended)
	MaskShift = maskShift
)

// KillAll ends all threads, as the end of the grace period does.
func KillAll(l *Loop) { l.killAll() }

// MaxRefusals is how many waits that end at once a thread may have.
const MaxRefusals = maxRefusals

// Left lists what is registered with a loop, which is nothing once its threads have ended. It is
// called on the loop, or after Run.
func Left(l *Loop) (left []string) {
	note := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	for fd, d := range l.table {
		if d != nil {
			note("descriptor %d, flags %#x", fd, d.flags)
		}
	}
	for _, own := range []*timeoutwheel.Timer{&l.trim.timer, &l.stop.grace} { // not the threads'
		if own.Pending() {
			defer l.wheel.Add(own, own.At())
			l.wheel.Cancel(own)
		}
	}
	timers := 0
	if _, ok := l.wheel.Next(); ok {
		timers = 1 // or more
	}
	for what, n := range map[string]int{
		"threads": l.threads, "threads without descriptor": len(l.unattached),
		"timers": timers, "functions queued": l.workers.queue.Len(),
	} {
		if n != 0 {
			note("%d %s", n, what)
		}
	}
	return left
}

// TimerAt returns what the timer is set to that limits t's wait.
func TimerAt(t *Thread) time.Duration { return time.Duration(t.timer.At()) * time.Millisecond }

// Jump puts the loop's clock forward, and the timers to that time, without a look for events.
func Jump(l *Loop, d time.Duration) {
	l.Layer().AdvanceClock(d)
	l.tick()
	l.wheel.Advance(l.now)
}

// Claims returns how many waits for descriptors that are no thread's own are registered.
func Claims(l *Loop) int {
	n := 0
	for _, d := range l.table {
		if d == nil || d.flags&shared == 0 {
			continue
		}
		if s := d.asShared(); d.flags.awaited() != 0 {
			n++
			if s.thread != s.writer {
				n++
			}
		}
	}
	return n
}

// RawFDs returns how many descriptors t remembers to give back.
func RawFDs(t *Thread) int { return len(t.extra().rawFDs) }

// TableSize returns the length of the table of descriptors.
func TableSize(l *Loop) int { return len(l.table) }

// PlaceOf is where the watchdog sees a stack of these functions, innermost first: the function's
// name.
func PlaceOf(functions ...string) string {
	var s stack
	for _, f := range functions {
		s = append(s, frame{function: f, position: f})
	}
	return s.place()
}

// NewWatchdogAt is NewWatchdog with a clock, which is asked when it is made and at each check.
func NewWatchdogAt(log *slog.Logger, now func() time.Time, limit time.Duration,
	loops ...*Loop) *Watchdog {
	return newWatchdog(log, now, limit, loops)
}

// Waiting returns how many threads wait for p.
func Waiting[T any](p *Promise[T]) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters.index != nil && len(p.waiters.index) != p.waiters.n {
		return -1
	}
	return p.waiters.n
}

// Queued returns how many waits there are for m.
func Queued(m *RWMutex) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Len()
}

// Kill ends t as the end of a stop does, in the next turn of its loop.
func Kill(t *Thread) { _ = t.loop.Post(func() { t.loop.kill(t) }) }

// Edges are the states of a descriptor's directions, for the test of the table of their moves.
type Edges struct{ e edges }

// Moves are the moves by their names, and EdgeStates the names of the states in their order.
var (
	Moves = map[string]move{
		"requested": requested, "besides": otherRequested, "emptied": emptied, "reported": reported,
		"removed": removed,
	}
	EdgeStates = []string{
		unknown: "unknown", drained: "drained", armed: "armed", fired: "fired", dead: "dead",
	}
)

// NumMoves and NumEdges are how many rows and columns the table has.
const (
	NumMoves = int(numMoves)
	NumEdges = int(numEdges)
)

// EdgesIn returns the directions in the given states.
func EdgesIn(read, write int) Edges { return Edges{edges{read: edge(read), write: edge(write)}} }

// Move moves the directions that are among the events.
func (e *Edges) Move(events uint16, m move) { e.e.move(events, m) }

// States returns the names of the states of both directions.
func (e *Edges) States() (read, write string) { return EdgeStates[e.e.read], EdgeStates[e.e.write] }

// Armed, Dead and Known are what a loop asks of them.
func (e *Edges) Armed(events uint16) bool { return e.e.armed(events) }
func (e *Edges) Dead() bool               { return e.e.dead() }
func (e *Edges) Outside() bool            { return e.e.outside() }
func (e *Edges) Known() uint16            { return e.e.known() }

// PutOffMost is how many pieces are put off at most.
const PutOffMost = maxPieces

// WakeReason is why a thread runs.
type WakeReason = wakeReason

// Reasons.
const (
	ByEvent      = byEvent
	ByNotify     = byNotify
	ByTime       = byTime
	ByClientGone = byClientGone
	ByStop       = byStop
)

// WokenBy returns why t runs. It is called by t's Task, before the first wait.
func WokenBy(t *Thread) WakeReason { return t.wokenBy }
