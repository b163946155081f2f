package loop

import (
	"slices"
	"sync/atomic"
)

// DefaultWorkers is how many functions a loop has running off the loop at a time, unless Options say otherwise.
const DefaultWorkers = 64

// call is a function to be run off the loop. All but run belongs to the loop.
type call struct {
	thread *Thread // that has submitted it
	group  *calls
	run    func() // on its own goroutine
	drop   func() // on the loop: it is not to run
	queued bool
}

// calls counts the functions of a thread, and of those within its scopes, that have begun and not returned.
type calls struct{ running atomic.Int32 }

// workers bounds the functions that run off a loop.
type workers struct {
	limit   int
	running int
	queue   []*call // those that wait for their turn
}

// submit has c run, now or when it is its turn.
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
	c.queued = true
	w.queue = append(w.queue, c)
}

// keepCall has c withdrawn with the deferred calls, if it has not begun by then.
func (t *Thread) keepCall(c *call) {
	if c.queued && !t.more.dropping {
		t.more.dropping = true
		t.Defer(t.dropCalls)
	}
}

// call begins c.
func (l *Loop) call(c *call) {
	c.group.running.Add(1)
	l.workers.running++
	go func() {
		defer func() { _ = l.Post(l.returned) }()
		c.run()
	}()
}

// returned gives the place of a function that has returned to the next one.
func (l *Loop) returned() {
	w := &l.workers
	if w.running--; len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		next.queued = false
		l.call(next)
	}
}

// withdraw has c not run, if it has not begun.
func (l *Loop) withdraw(c *call) {
	if !c.queued {
		return
	}
	c.queued = false
	w := &l.workers
	i := slices.Index(w.queue, c)
	w.queue = slices.Delete(w.queue, i, i+1)
	c.drop()
}

// dropCalls withdraws what t has submitted and has not begun.
func (t *Thread) dropCalls() {
	t.more.dropping = false
	for _, c := range slices.Clone(t.loop.workers.queue) {
		if c.thread == t {
			t.loop.withdraw(c)
		}
	}
}

// Stranded reports that functions are still running off the loop that t has called, or a thread within its scopes, and
// forgets them. What they may hold must not be used any more.
func Stranded(t *Thread) bool {
	if t.more == nil || t.more.calls == nil || t.more.calls.running.Load() == 0 {
		return false
	}
	t.more.calls = nil
	return true
}
