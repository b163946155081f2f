package timeoutwheel

// An Expirer is called when its timer expires.
type Expirer interface {
	// Expire is called by [Wheel.Advance], on its goroutine, when the timer is idle already. It may
	// add and cancel any timer of the wheel, including its own, but must not call Advance. If it
	// panics, the timers that are due after it stay pending and expire at the next Advance.
	Expire()
}

// A Timer can be pending on one [Wheel] at a time. It is meant to be a field of what it watches.
// The zero value is idle and needs an owner ([Timer.Init]) before it is added. A pending timer must
// not be copied, and its memory must not be reused.
type Timer struct {
	next, prev *Timer // both nil when idle
	at         int64
	owner      Expirer
}

// Init sets the owner, whose Expire is called. It may be called again, for a record that is used
// anew. A pending timer stays pending.
func (t *Timer) Init(owner Expirer) { t.owner = owner }

// Pending reports whether the timer has been added and has neither expired nor been cancelled
// since.
func (t *Timer) Pending() bool { return t.next != nil }

// At returns the time, in milliseconds, for which the timer was last added. It is 0 if it never
// was.
func (t *Timer) At() int64 { return t.at }

// A Wheel holds the pending timers of one loop. [New] makes it. All methods are for one goroutine
// at a time.
type Wheel struct {
	now       int64
	pending   int
	advancing bool
	paused    bool // the rest of the running Advance waits for the next one

	// Timers with at <= now. There are two lists, so that a timer which is added again while
	// Advance works through its list waits for the next Advance: an Expire that adds its own timer
	// for "now" cannot keep the loop from its other work.
	late  Timer // root: were due when added, wait for the next Advance
	fires Timer // root: taken by the Advance that is running

	slots slots // timers with at > now
}

// New returns an empty wheel whose time is now, in milliseconds. It is about 28 KiB, and all that
// the package ever allocates.
func New(now int64) *Wheel {
	w := &Wheel{now: now}
	initList(&w.late)
	initList(&w.fires)
	for level := range w.slots.roots {
		for slot := range w.slots.roots[level] {
			initList(&w.slots.roots[level][slot])
		}
	}
	return w
}

// Add makes t expire at the time at, in milliseconds. If t is pending (on this wheel), it is moved.
// If at is not after the wheel's time, which is that of the last [Wheel.Advance], t expires at the
// next Advance. Add panics if t has no owner: the cause would be hard to find when t expires.
func (w *Wheel) Add(t *Timer, at int64) {
	if t.owner == nil {
		panic("timeoutwheel: Add of a timer without owner")
	}
	w.Cancel(t)
	t.at = at
	w.pending++
	if at <= w.now {
		appendTo(&w.late, t)
	} else {
		w.slots.insert(w.now, t)
	}
}

// Cancel makes t idle. It will not expire, even if it is due in the Advance that is running. Cancel
// of an idle timer does nothing. t must not be pending on another wheel.
func (w *Wheel) Cancel(t *Timer) {
	if !t.Pending() {
		return
	}
	w.pending--
	if t.at <= w.now {
		unlink(t)
	} else {
		w.slots.remove(w.now, t)
	}
}

// Advance sets the wheel's time to now, in milliseconds, and calls Expire for each pending timer
// with at <= now. A timer that an Expire adds with at <= now waits for the next Advance. The
// wheel's time does not go back: an earlier now only runs what is due already. Advance panics when
// called from Expire.
func (w *Wheel) Advance(now int64) {
	if w.advancing {
		panic("timeoutwheel: Advance called from Expire")
	}
	w.advancing, w.paused = true, false
	// Deferred, so that a wheel survives an Expire that panics or exits.
	defer func() { w.advancing = false }()

	// All that is due is taken before the first Expire runs: then the time has one value, whatever
	// the callbacks do to the wheel.
	moveAll(&w.fires, &w.late)
	if now > w.now {
		w.slots.advance(w.now, now, &w.fires)
		w.now = now
	}
	for !isEmpty(&w.fires) && !w.paused {
		t := w.fires.next
		unlink(t)
		w.pending--
		t.owner.Expire()
	}
}

// Pending returns how many timers are pending.
func (w *Wheel) Pending() int { return w.pending }

// Pause makes the [Wheel.Advance] that is running return after the present Expire. The timers that
// are due after it stay pending, and are the first to expire at the next Advance. Only an Expire
// may call Pause: it is for one that has taken too long already.
func (w *Wheel) Pause() { w.paused = true }

// Next returns when the next [Wheel.Advance] is needed, in milliseconds, or false if no timer is
// pending. It is never later than the earliest timer. It is earlier only if a timer was cancelled
// that was the earliest of many in its slot. The Advance then finds the right time, so that a loop
// wakes up at most once in vain per slot. The result may be in the past, by any distance: compare
// it with the clock before subtracting.
func (w *Wheel) Next() (at int64, ok bool) {
	// The bounds of these two lists may be of timers that are gone. That does not matter, because
	// all that remains is due as well.
	switch late, fires := !isEmpty(&w.late), !isEmpty(&w.fires); {
	case late && fires:
		return min(w.late.at, w.fires.at), true
	case late:
		return w.late.at, true
	case fires:
		return w.fires.at, true
	}
	level, slot, ok := w.slots.first()
	if !ok {
		return 0, false
	}
	return w.slots.bound(level, slot), true
}
