package loop

import (
	"container/list"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// DefaultWorkers is how many functions of a loop run off it at a time, unless Options say
// otherwise.
const DefaultWorkers = 64

// call is a function that runs off the loop. Except for run it belongs to the loop.
type call struct {
	group  *calls
	run    func()        // on its own goroutine
	drop   func(error)   // on the loop, when it never will run
	late   func() error  // see CallUnless; nil: none
	queued *list.Element // in the queue of the workers; nil: it has begun, or was withdrawn
	kept   *list.Element // in its thread's list, if it was submitted by Call
	thread *Thread       // whose list that is
}

// calls counts the functions that have begun and not returned, of a thread and of those within its
// scopes.
type calls struct{ running atomic.Int32 }

// workers bounds the functions that run off a loop.
type workers struct {
	limit   int
	running int
	queue   list.List // of *call, those that have not begun
	missed  int64     // waits that have returned ErrNoWorker
	warned  time.Time // when that was last logged
}

// ErrNoWorker is the error of an Await that came to its limit while all workers of the loop were
// busy, so that the function never runs. It is an os.ErrDeadlineExceeded, too.
var ErrNoWorker = fmt.Errorf("no worker was free: %w", os.ErrDeadlineExceeded)

// submit runs c, now or when a worker is free.
func (t *Thread) submit(c *call) {
	m := t.extra()
	if m.calls == nil {
		m.calls = new(calls)
	}
	c.group = m.calls
	w := &t.loop.workers
	if w.running < w.limit {
		t.loop.call(c)
		return
	}
	c.queued = w.queue.PushBack(c)
}

// keepCall sees to it that t's deferred calls withdraw c if it has not begun by then.
func (t *Thread) keepCall(c *call) {
	if c.queued == nil {
		return
	}
	if t.more.kept == nil {
		t.more.kept = list.New()
		t.Defer(t.dropCalls)
	}
	c.thread, c.kept = t, t.more.kept.PushBack(c)
}

// call begins c.
func (l *Loop) call(c *call) {
	c.group.running.Add(1)
	l.workers.running++
	l.Beside(func() {
		defer func() { _ = l.Post(l.returned) }()
		c.run()
	})
}

// Beside runs f on a goroutine of its own, soon. Only the loop and its threads may call it.
//
// The go statement alone would do. But the goroutine then stands in the queue of the processor that
// the loop holds for the rest of the turn and while it waits, and another processor that wants to
// take it from there sleeps first. So the loop calls the scheduler at the end of the turn.
func (l *Loop) Beside(f func()) {
	l.started = true
	go f()
}

// returned is called on the loop when a function has returned. It gives the place to the next one.
func (l *Loop) returned() {
	w := &l.workers
	w.running--
	for next := w.queue.Front(); next != nil; next = w.queue.Front() {
		c := next.Value.(*call)
		l.unqueue(c)
		if c.late != nil {
			if err := c.late(); err != nil {
				c.drop(err)
				continue
			}
		}
		l.call(c)
		return
	}
}

// unqueue takes c off its lists.
func (l *Loop) unqueue(c *call) {
	l.workers.queue.Remove(c.queued)
	c.queued = nil
	if c.kept != nil {
		c.thread.more.kept.Remove(c.kept)
		c.kept = nil
	}
}

// withdraw drops c if it has not begun.
func (l *Loop) withdraw(c *call) {
	if c.queued != nil {
		l.unqueue(c)
		c.drop(ErrCanceled)
	}
}

// miss notes that a wait came to its limit before there was a worker. If one waits for too long,
// hundreds do, so this is logged once a minute.
func (w *workers) miss(l *Loop) {
	w.missed++
	if w.warned.IsZero() || l.wall.Sub(w.warned) >= time.Minute {
		w.warned = l.wall
		l.log.Warn("loop: no worker was free for a function within its limit of time",
			"workers", w.limit, "waiting", w.queue.Len(), "missed", w.missed)
	}
}

// dropCalls withdraws the functions that t has submitted and that have not begun.
func (t *Thread) dropCalls() {
	kept := t.more.kept
	for e := kept.Front(); e != nil; e = kept.Front() {
		t.loop.withdraw(e.Value.(*call))
	}
	t.more.kept = nil
}

// Stranded reports whether functions are still running off the loop that t has called, or a thread
// within its scopes, and forgets them. What they may hold must not be used any more.
func Stranded(t *Thread) bool {
	if t.more == nil || t.more.calls == nil || t.more.calls.running.Load() == 0 {
		return false
	}
	t.more.calls = nil
	return true
}
