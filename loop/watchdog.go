package loop

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Watchdog logs, with its stack, the code that holds a loop: a handler that computes for long, or
// waits in a way that does not yield. One Watchdog watches all loops of a server; a process may
// have several. It does not act on what it finds, because there is no way to stop a goroutine.
//
// It checks the loops twice within its limit. The first check marks a loop, and whatever the loop
// does next removes the mark. A loop that still has the mark when the limit has passed is held. So
// being watched costs a busy loop a load here and there. What is measured is a single run of one
// thread, from its resume to its next wait, or one posted function. A turn that many threads share
// may well take longer, and none of them is to blame.
//
// While no loop wakes up from one check to the next, the watchdog stops checking, so an idle
// process stays idle. The first loop that wakes up wakes the watchdog.
type Watchdog struct {
	log *slog.Logger
	now func() time.Time

	// For any goroutine.
	limit   atomic.Int64
	parked  atomic.Bool   // it waits for a loop to wake up
	again   chan struct{} // wakes it for the next check; has room for one
	closing chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	stalls []Stall // the latest ones, oldest first
	counts []int64 // by loop

	// The watchdog's goroutine's.
	watched []watched
	logged  map[string]time.Time // by place
}

// watched is what the watchdog knows of one loop.
type watched struct {
	pulse  *pulse
	index  int       // in the arguments of NewWatchdog
	since  time.Time // when it was marked
	checks int       // how often the mark was found
	due    int       // the check that finds out why
}

const (
	minLimit = time.Millisecond // a lower limit means this
	logEvery = time.Minute      // a place is logged once in this time
)

// NewWatchdog watches loops, which may run already, and logs to log when one is held for longer
// than limit. A loop has one watchdog at a time.
func NewWatchdog(log *slog.Logger, limit time.Duration, loops ...*Loop) *Watchdog {
	return newWatchdog(log, time.Now, limit, loops)
}

func newWatchdog(
	log *slog.Logger, now func() time.Time, limit time.Duration, loops []*Loop,
) *Watchdog {
	w := &Watchdog{
		log:     log,
		now:     now,
		again:   make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		logged:  map[string]time.Time{},
		counts:  make([]int64, len(loops)),
	}
	w.SetLimit(limit)
	start := now() // an earlier watchdog may have left its marks
	for i, l := range loops {
		l.pulse.dog.Store(w)
		w.watched = append(w.watched, watched{pulse: &l.pulse, index: i, since: start, due: 2})
	}
	go w.run()
	return w
}

// SetLimit changes the limit. With 0 the watchdog sleeps. Any goroutine may call it.
func (w *Watchdog) SetLimit(limit time.Duration) {
	if limit > 0 {
		limit = max(limit, minLimit)
	}
	w.limit.Store(int64(limit))
	w.checkAgain()
}

// Close stops the watchdog, and waits until its goroutine has returned. It is called once.
func (w *Watchdog) Close() {
	close(w.closing)
	<-w.done
	for _, c := range w.watched {
		c.pulse.dog.CompareAndSwap(w, nil)
	}
}

func (w *Watchdog) checkAgain() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

func (w *Watchdog) run() {
	defer close(w.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if limit := time.Duration(w.limit.Load()); limit > 0 && w.check(limit) {
			timer.Reset(limit / 2)
		}
		select {
		case <-timer.C:
		case <-w.again:
		case <-w.closing:
			return
		}
	}
}

// check marks the loops, reports those that are held, and returns whether to check again after a
// while.
func (w *Watchdog) check(limit time.Duration) (again bool) {
	w.parked.Store(false)
	now := w.now()
	for i := range w.watched {
		c := &w.watched[i]
		state := c.pulse.state.Load()
		again = again || state != stillAsleep
		switch state {
		case asleep:
			c.pulse.state.CompareAndSwap(asleep, stillAsleep)
		case moved:
			c.pulse.state.CompareAndSwap(moved, marked)
			// The second check is the one at the limit. A process that was stopped, or starved by
			// others, finds its clock far ahead at the first, and its loop could not do anything.
			c.since, c.checks, c.due = now, 0, 2
		case marked:
			c.checks++
			if c.checks < c.due || now.Sub(c.since) < limit {
				continue
			}
			// A loop that stays held is checked again, because it may be held elsewhere by then.
			// But less and less often, because a stack costs time.
			before := c.due > 2
			c.due = 2 * c.checks
			w.report(c, now, limit, before)
		}
	}
	if again {
		return true
	}
	// A loop that wakes up from here on sees parked; one that has woken up before is seen below.
	w.parked.Store(true)
	return w.anyAwake()
}

func (w *Watchdog) anyAwake() bool {
	for i := range w.watched {
		if w.watched[i].pulse.state.Load() != stillAsleep {
			return true
		}
	}
	return false
}

// report notes what holds a loop, and logs it, unless the same place was logged within the last
// minute. again says that the stall was noted before.
func (w *Watchdog) report(c *watched, now time.Time, limit time.Duration, again bool) {
	stack, suspended := runningStack(c.pulse.name)
	if stack == nil || c.pulse.state.Load() != marked {
		return // if it has moved meanwhile, it may be another thread's stack
	}
	for place, at := range w.logged {
		if now.Sub(at) >= logEvery {
			delete(w.logged, place)
		}
	}
	place := stack.place()
	w.note(Stall{Loop: c.index, Since: c.since, Held: now.Sub(c.since), Place: place},
		again)
	if _, ok := w.logged[place]; ok {
		return
	}
	w.logged[place] = now
	attributes := []any{"held", now.Sub(c.since).Round(time.Millisecond), "limit", limit,
		"place", place}
	w.log.Warn("loop: held up", append(append(attributes, stack.hints(suspended)...),
		"stack", stack.String())...)
}

// Stall is a time for which something has held a loop.
type Stall struct {
	Loop  int           // index in the arguments of NewWatchdog
	Since time.Time     // when the watchdog began to see it
	Held  time.Duration // until the watchdog last saw it
	Place string        // the function that has held the loop then, with file and line
}

// maxStalls is how many of the latest stalls are kept.
const maxStalls = 16

func (w *Watchdog) note(s Stall, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.stalls) - 1; again {
		for i := last; i >= 0; i-- {
			if w.stalls[i].Loop == s.Loop {
				w.stalls[i] = s
				return
			}
		}
	}
	w.counts[s.Loop]++
	if len(w.stalls) == maxStalls {
		w.stalls = slices.Delete(w.stalls, 0, 1)
	}
	w.stalls = append(w.stalls, s)
}

// Stalls returns how many stalls of each loop the watchdog has seen, and the latest ones, oldest
// first. Any goroutine may call it.
func (w *Watchdog) Stalls() (counts []int64, latest []Stall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.counts), slices.Clone(w.stalls)
}

// pulse is what a loop shows its watchdog.
type pulse struct {
	state atomic.Uint32
	kills atomic.Int64 // threads that killAll has ended, see AwaitEnd
	dog   atomic.Pointer[Watchdog]
	name  string // the value of loopLabel; set once
}

// The states of a loop. The watchdog turns asleep into stillAsleep and moved into marked, and the
// loop makes every other change.
const (
	asleep      = iota // in an epoll_wait that may block, or not running
	stillAsleep        // as it was at the check before
	moved              // since the last check
	marked             // a check has marked it, and nothing has moved since
)

// beat is called wherever the loop is seen to go on.
func (p *pulse) beat() {
	if p.state.Load() == marked {
		p.state.Store(moved)
	}
}

func (p *pulse) sleep() { p.state.Store(asleep) }

func (p *pulse) wake() {
	p.state.Store(moved)
	if w := p.dog.Load(); w != nil && w.parked.Load() && w.parked.CompareAndSwap(true, false) {
		w.checkAgain()
	}
}

// begin is called by a goroutine that becomes the loop. It labels the goroutine for profiles.
// Coroutines inherit the label, because that goroutine makes theirs.
func (p *pulse) begin() {
	pprof.SetGoroutineLabels(
		pprof.WithLabels(context.Background(), pprof.Labels(loopLabel, p.name)))
	p.wake()
}
