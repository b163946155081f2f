package loop

import (
	"time"

	"github.com/lwango/lwango/timeoutwheel"
)

// Timer is a Source that is ready from some time on. Only threads of the loop on which it was made
// may use it, one at a time. As a source, a nil Timer is never ready.
type Timer struct {
	loop   *Loop
	timer  timeoutwheel.Timer
	at     int64
	waiter *Thread
}

// After returns a timer that is ready when d has passed.
func (t *Thread) After(d time.Duration) *Timer {
	tm := &Timer{loop: t.loop}
	tm.timer.Init((*timerExpiry)(tm))
	tm.Reset(d)
	return tm
}

// Reset makes the timer ready when d has passed from now on.
func (tm *Timer) Reset(d time.Duration) {
	tm.loop.tick()
	tm.at = tm.loop.after(max(d, 0))
	if tm.waiter != nil {
		tm.loop.wheel.Add(&tm.timer, tm.at)
	}
}

// Watch implements Source. It adds the timer to the wheel: a timer that no thread waits for is not
// in the wheel, and costs nothing.
func (tm *Timer) Watch(t *Thread) error {
	if tm == nil {
		return nil
	}
	if tm.waiter != nil {
		return ErrAwaited
	}
	if tm.waiter = t; !tm.Ready() {
		tm.loop.wheel.Add(&tm.timer, tm.at)
	}
	return nil
}

// Ready implements Source.
func (tm *Timer) Ready() bool { return tm != nil && tm.loop.now >= tm.at }

// Unwatch implements Source.
func (tm *Timer) Unwatch(*Thread) {
	if tm != nil {
		tm.waiter = nil
		tm.loop.wheel.Cancel(&tm.timer)
	}
}

type timerExpiry Timer

// Expire implements timeoutwheel.Expirer.
func (e *timerExpiry) Expire() {
	if e.waiter != nil {
		e.waiter.notify()
	}
}
