package loop

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/lwango/lwango/coro"
)

// IdleTimeout sets how long t may be idle after its task has returned, from the beginning of the
// loop's turn; there is no limit if d is negative. A wait has a limit of its own, and clears this
// one.
func (t ThreadLayer) IdleTimeout(d time.Duration) { t.limit(t.loop.after(d)) }

// limit sets the time at which the present wait returns at the latest.
//
// Most waits return long before that time, and the limit of the next wait is a little later, or far
// from it: a request that asks an upstream waits for a minute at most, and its connection is idle
// for a shorter or a longer time between two requests. So limit leaves the timer where it is,
// unless the timer is too late or about to expire, and alarm moves a timer that has expired too
// early. Apart from waits of less than a second, a connection in use costs one timer operation a
// second at most, and an idle one wakes up the loop for nothing once at most. A timer that is about
// to expire long before the new time is moved at once, since with some connections a short wait
// comes before each idle time.
func (t *Thread) limit(at int64) {
	t.until = at
	if t.more != nil && len(t.more.rawFDs) > 0 {
		at = min(at, t.loop.now+early)
	}
	if at == never {
		return
	}
	if set := t.timer.At(); !t.timer.Pending() || set > at ||
		at-set > early && set-t.loop.now < early {
		t.loop.wheel.Add(&t.timer, at)
	}
}

// early is in milliseconds. A timer that limit leaves where it is expires at most so long before
// the limit of the wait, or at least so long from now.
const early = 1000

// never is the limit of a wait without one.
const never = math.MaxInt64

// Yield lets the loop's other threads run; t goes on in the next turn.
func (t *Thread) Yield() { _ = t.wait(coro.Make(coro.Yield, 0), never) }

// WantRead waits until the thread's own descriptor can be read, for d at most, from the beginning
// of the loop's turn; negative: without limit. It returns nil, also if the peer is gone
// (a read tells more), or ErrDeadlineExceeded. It panics if the thread has no descriptor.
func (t *Thread) WantRead(d time.Duration) error { return t.want(coro.WantRead, d) }

// WantWrite waits until it can be written; see WantRead.
func (t *Thread) WantWrite(d time.Duration) error { return t.want(coro.WantWrite, d) }

// WantReadWrite waits until it can be read or written; see WantRead.
func (t *Thread) WantReadWrite(d time.Duration) error { return t.want(coro.WantReadWrite, d) }

func (t *Thread) want(code coro.Code, d time.Duration) error {
	if t.own.fd < 0 {
		panic(fmt.Sprintf("loop: %v by a thread without a descriptor", code))
	}
	var err error
	if v, until := coro.Make(code, 0), t.loop.after(d); code == coro.WantRead {
		err = t.waitWithin(v, until)
	} else {
		err = t.wait(v, until)
	}
	if timedOut(err) && t.own.poll(orMask[code].awaited()) {
		return nil
	}
	return err
}

// Sleep waits for d, and returns nil. It returns early with ErrClientGone when the thread's client
// leaves (see KeepWaiting), or with ErrCanceled or ErrBudget.
func (t *Thread) Sleep(d time.Duration) error {
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	t.loop.tick() // what the thread did before may have taken its time
	err := t.waitWithin(coro.Make(coro.Suspend, 0), t.loop.after(max(d, 0)))
	if err == ErrDeadlineExceeded {
		return nil
	}
	return err
}

// refused returns the error with which a wait is refused: the client has left, the thread was
// canceled, a context that it is bound to has ended, or its budget is spent.
//
// A thread may ignore the errors of its waits and go on. It must not hold its loop in that way, so
// it yields at each refusal; nor must it go on for ever, so it is killed after maxRefusals of them.
func (t *Thread) refused() error {
	err := t.waitError()
	if err == nil {
		return nil
	}
	if t.refusals++; t.refusals > maxRefusals {
		t.loop.log.Error("loop: thread ended, it does not heed the errors of its waits",
			"error", err)
		t.co.Yield(coro.Make(coro.Abort, 0)) // does not return
	}
	t.Yield()
	return err
}

const maxRefusals = 1000

// Refused returns the error of a wait that t would begin now; nil: it may wait. It is for work that
// goes on for long without a wait, and counts as a wait that was refused. Only t may call it.
func (t ThreadLayer) Refused() error { return t.refused() }

// SawClientGone reports whether t's last wait returned because the client had left, or a wait was
// refused for that since t's deferred calls last ran. Only t may call it.
func (t ThreadLayer) SawClientGone() bool {
	return t.wokenBy == byClientGone || t.refusals > 0 && t.Gone()
}

// waitError returns why the thread must not wait, or nil if it may.
func (t *Thread) waitError() error {
	switch f := t.own.flags; {
	case f&canceled != 0 || t.failed():
		return ErrCanceled
	case f&(finished|keepWaiting) == finished:
		return ErrClientGone
	case t.more == nil:
		return nil
	case t.more.budget != 0 && t.loop.now >= t.budget():
		return ErrBudget
	case f&keepWaiting == 0:
		return t.boundError()
	}
	return nil
}

// wait yields v and returns when the loop has called ready, at the given time at the latest.
func (t *Thread) wait(v coro.Value, until int64) error {
	t.mustRun()
	t.limit(until)
	t.wokenBy = byEvent
	t.co.Yield(v)
	if t.wokenBy == byContext {
		return t.more.ended.err
	}
	return t.wokenBy.err()
}

// mustRun panics if the caller is not t: control would go to a coroutine that does not run, and the
// loop would stand still for ever.
func (t *Thread) mustRun() {
	if t.loop.current != t {
		panic(
			"loop: a wait by a thread that is not running: a function of Go waits by the thread that it " +
				"gets, as in " +
				"t.Await or loop.Await(t, ...), and not by the request or the thread that has started it")
	}
}

type deadlineExceeded struct{}

// Error implements error.
func (deadlineExceeded) Error() string { return os.ErrDeadlineExceeded.Error() }

// Is says which errors of the standard library it is.
func (deadlineExceeded) Is(err error) bool {
	return err == os.ErrDeadlineExceeded || err == context.DeadlineExceeded
}

// Timeout implements net.Error.
func (deadlineExceeded) Timeout() bool { return true }

// Temporary implements net.Error.
func (deadlineExceeded) Temporary() bool { return true }
