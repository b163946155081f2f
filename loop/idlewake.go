package loop

import "github.com/lwango/lwango/coro"

// wakeReason is why the loop has run a thread, or has called the Task of an idle one: the first
// reason, if there are several. A Task is not told, and checks all of its sources.
type wakeReason uint8

const (
	byEvent      wakeReason = iota // of its own descriptor, or of one with WakeOnReady; or Wake
	byNotify                       // Notify
	byTime                         // its IdleTimeout, or the limit of its wait, has passed
	byClientGone                   // its client has left
	byCancel                       // its scope was canceled
	byPlace                        // its function of RunInPlace has returned
	byContext                      // a context that it is bound to has ended
	byStop                         // the loop stops
)

// WakeOnNotify makes the loop wake t while it is idle for the same reasons as a thread in AwaitAny:
// Notify, Stop, that its client has left, and that its IdleTimeout has passed, which then does not
// end t. So t's Task can be called for Sources that it has watched, and the Sources stay watched
// meanwhile. t needs no descriptor.
//
// The Task calls WakeOnNotify before it returns Suspend, WantRead or the like. Between the two it
// checks its sources, because Notify does nothing while a thread runs. The next call of the Task
// ends the effect of WakeOnNotify.
func (t ThreadLayer) WakeOnNotify() { t.own.flags |= notifiable }

// handleNotification lets t's Task handle a notification on the loop, and reports whether that is
// done.
func (t *Thread) handleNotification() bool {
	if t.co != nil || t.own.flags&(notifiable|queued|ended|finished) != notifiable ||
		t.loop.stop.stopping {
		return false
	}
	h, ok := t.task.(notifyHandler)
	return ok && h.Notified(&t.own)
}

// Resumes counts the times that l's threads have become the running one. A thread that
// reads the same number twice has not waited in between, and so has missed no notification.
func (l LoopLayer) Resumes() int64 { return l.stats.Resumes }

// TakeDeferred returns t's deferred calls, first to last, and t forgets them: the caller must make
// the calls in the end, last first, on the coroutine that t has then. Those that the loop has
// deferred for t's waits are made at once. t calls TakeDeferred when the threads that it has
// started have ended.
func (t ThreadLayer) TakeDeferred() []func() {
	t.dropCalls()
	t.releaseRawFDs()
	if t.more != nil {
		t.more.scope = nil
	}
	return t.co.TakeDeferred()
}

// RunBeforeEnd calls f as the idle thread t, before the loop ends t. t's BeforeEnd calls it. f runs
// on a coroutine, as after a kill: it runs to its end unless it waits, and a wait unwinds it by
// runtime.Goexit, which runs its deferred calls.
func (t ThreadLayer) RunBeforeEnd(f func()) {
	l, was := t.loop, t.loop.current
	c := l.pool.Get()
	l.enter(t.Thread, c)
	c.RunFinal(&lastTask{t.Thread, f})
	l.logPanic(t.Thread)
	l.pool.Put(c, l.now)
	t.co, l.current = nil, was
}

// lastTask is the task of the coroutine in RunBeforeEnd.
type lastTask struct {
	t *Thread
	f func()
}

// Run implements coro.Task.
func (m *lastTask) Run(*coro.Coro) coro.Value {
	m.t.owner.Enter()
	m.f()
	return coro.Make(coro.Abort, 0)
}
