package loop

import (
	"os"
	"time"

	"github.com/lwango/lwango/coro"
)

type budgetSpent struct{ deadlineExceeded }

// Error implements error.
func (budgetSpent) Error() string { return "time budget spent: " + os.ErrDeadlineExceeded.Error() }

// Is says which other errors it is.
func (b budgetSpent) Is(err error) bool {
	return err == ErrDeadlineExceeded || b.deadlineExceeded.Is(err)
}

// Within runs f with a budget of time, and returns f's error. When d has passed, the waits that f
// has begun return ErrBudget, and so do those that it begins later, unless what they wait for is
// there already. That holds for whatever makes t wait, except writes to t's own client and Join.
// The context that Await's functions get has the deadline. Threads that f starts have the same
// budget, even if they outlast f. Of nested calls the shortest budget counts. A negative d adds no
// budget.
//
// A thread that does not heed the error ends as one that does not heed ErrCanceled.
func (t *Thread) Within(d time.Duration, f func() error) error {
	if d < 0 {
		return f()
	}
	t.loop.tick() // what the thread did before may have taken its time
	refusals := t.refusals
	was := t.Layer().SetBudget(Budget(min(t.loop.after(d), t.budget()) + 1))
	defer func() {
		t.Layer().SetBudget(was)
		if t.waitError() == nil {
			t.refusals = refusals // a thread may spend one budget after the other for ever
		}
	}()
	return f()
}

// Deadline returns when the budget of Within ends. ok is false if there is none.
func (t *Thread) Deadline() (by time.Time, ok bool) {
	at := t.budget()
	if at == never {
		return time.Time{}, false
	}
	return t.loop.start.Add(time.Duration(at) * time.Millisecond), true
}

// Budget is the time that Within leaves to a thread. The zero Budget does not end.
type Budget int64 // one more than the wheel's time

// SetBudget replaces t's budget, and returns what it was. With the zero Budget, code that waits on
// t's behalf under limits of its own, such as a write to t's client, lets the budget not end its
// wait; then it sets back what was. Only t may call it.
func (t ThreadLayer) SetBudget(b Budget) (was Budget) {
	if t.more == nil && b == 0 {
		return 0
	}
	m := t.extra()
	was, m.budget = m.budget, b
	return was
}

// budget returns the time at which t's waits end.
func (t *Thread) budget() int64 {
	if t.more == nil || t.more.budget == 0 {
		return never
	}
	return int64(t.more.budget) - 1
}

// waitWithin is wait within t's budget.
func (t *Thread) waitWithin(v coro.Value, until int64) error {
	by := t.budget()
	err := t.wait(v, min(until, by))
	if err == ErrDeadlineExceeded && by < until {
		return ErrBudget
	}
	return err
}

// timedOut reports whether err says that the time for a wait is over.
func timedOut(err error) bool { return err == ErrDeadlineExceeded || err == ErrBudget }
