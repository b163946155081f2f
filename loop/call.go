package loop

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
)

// DefaultWorkers is how many functions of a loop run off it at a time, unless Options say
// otherwise.
const DefaultWorkers = 64

// call is a function that runs off the loop. Except for run it belongs to the loop.
type call struct {
	group   *calls
	run     func()            // on its own goroutine
	drop    func(error)       // on the loop, when it never will run
	unless  func() error      // see CallUnless; nil: none
	queued  fair.Entry[*call] // it waits: neither has begun, nor was withdrawn
	element *list.Element     // in its thread's list, if it was submitted by Call
	thread  *Thread           // whose list that is
}

// calls counts the functions that have begun and not returned, of a thread and of those within its
// scopes.
type calls struct{ running atomic.Int32 }

// workers bounds the functions that run off a loop. Where they have to wait, clients take turns.
type workers struct {
	limit   int
	running int
	queue   fair.Queue[*call] // those that have not begun
	missed  int64             // waits that have returned ErrNoWorker
	warned  time.Time         // when that was last logged
}

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
	c.queued.Value = c
	w.queue.Add(t.Layer().Client(), &c.queued)
}

// listCall makes t's deferred calls withdraw c if c has not begun by then.
func (t *Thread) listCall(c *call) {
	if !c.queued.Waits() {
		return
	}
	if t.more.queuedCalls == nil {
		t.more.queuedCalls = list.New()
		t.Defer(t.dropCalls)
	}
	c.thread, c.element = t, t.more.queuedCalls.PushBack(c)
}

// call begins c.
func (l *Loop) call(c *call) {
	c.group.running.Add(1)
	l.workers.running++
	l.Layer().StartGoroutine(func() {
		defer func() { _ = l.Post(l.returned) }()
		c.run()
	})
}

// returned is called on the loop when a function has returned. It gives the worker to the next one.
func (l *Loop) returned() {
	w := &l.workers
	w.running--
	for next := w.queue.Next(); next != nil; next = w.queue.Next() {
		c := next.Value
		w.queue.Take(next)
		l.unlistCall(c)
		if c.unless != nil {
			if err := c.unless(); err != nil {
				c.drop(err)
				continue
			}
		}
		l.call(c)
		return
	}
}

// unlistCall takes c, which does not wait any more, off the list of its thread.
func (l *Loop) unlistCall(c *call) {
	if c.element != nil {
		c.thread.more.queuedCalls.Remove(c.element)
		c.element = nil
	}
}

// withdraw drops c if it has not begun.
func (l *Loop) withdraw(c *call) {
	if c.queued.Waits() {
		l.workers.queue.Remove(&c.queued)
		l.unlistCall(c)
		c.drop(ErrCanceled)
	}
}

// Client returns the address of the client for whom t works, if t's task or that of a thread that
// has started t has the method Client; else the zero Addr. It is called by t.
func (t ThreadLayer) Client() netip.Addr {
	for {
		if c, ok := t.task.(client); ok {
			return c.Client()
		}
		if t.more == nil || t.more.member == nil {
			return netip.Addr{}
		}
		t = t.more.member.owner.Layer()
	}
}

// miss counts a wait that came to its limit before there was a worker. If one wait does, hundreds
// do, so the log has one line a minute.
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
	if t.more == nil || t.more.queuedCalls == nil {
		return // see TakeDeferred
	}
	queued := t.more.queuedCalls
	for e := queued.Front(); e != nil; e = queued.Front() {
		t.loop.withdraw(e.Value.(*call))
	}
	t.more.queuedCalls = nil
}

// HasCalls reports whether functions are still running off the loop for t, or for a thread within
// its scopes. Objects that these functions may hold must not be reused. The loop calls it, or t.
func (t ThreadLayer) HasCalls() bool {
	return t.more != nil && t.more.calls != nil && t.more.calls.running.Load() > 0
}

// AbandonCalls forgets the functions that HasCalls reports, and reports whether there were any. The
// caller must not use objects any more that these functions may hold.
func (t ThreadLayer) AbandonCalls() bool {
	if !t.HasCalls() {
		return false
	}
	t.more.calls = nil
	return true
}
