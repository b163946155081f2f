package loop

import "slices"

// DefaultWorkers is how many functions a loop has running off the loop at a time, unless Options say otherwise.
const DefaultWorkers = 64

// call is a function to be run off the loop. All but run belongs to the loop.
type call struct {
	run   func() // on its own goroutine
	drop  func() // on the loop: it is not to run
	group *calls
}

// calls counts the functions that a thread has had called since its deferred calls last ran.
type calls struct{ queued, running int }

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
		t.Defer(t.dropCalls)
	}
	c.group = m.calls
	if w := &t.loop.workers; w.running < w.limit {
		t.loop.call(c)
	} else {
		w.queue = append(w.queue, c)
		c.group.queued++
	}
}

// call begins c.
func (l *Loop) call(c *call) {
	c.group.running++
	l.workers.running++
	go func() {
		defer func() { _ = l.Post(func() { l.returned(c) }) }()
		c.run()
	}()
}

// returned gives c's place to the next one.
func (l *Loop) returned(c *call) {
	c.group.running--
	w := &l.workers
	if w.running--; len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		next.group.queued--
		l.call(next)
	}
}

// withdraw has c not run, if it has not begun.
func (l *Loop) withdraw(c *call) {
	w := &l.workers
	if i := slices.Index(w.queue, c); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		c.group.queued--
		c.drop()
	}
}

// dropCalls withdraws what has not begun. The rest runs on, and is not counted for what the thread does next.
func (t *Thread) dropCalls() {
	group := t.more.calls
	t.more.calls = nil
	if group.queued == 0 {
		return
	}
	for _, c := range slices.Clone(t.loop.workers.queue) {
		if c.group == group {
			t.loop.withdraw(c)
		}
	}
}

// CallsRunning returns how many of the functions that t has had run off the loop, since its deferred calls last ran, have
// not returned.
func CallsRunning(t *Thread) int {
	if t.more == nil || t.more.calls == nil {
		return 0
	}
	return t.more.calls.running
}
