package loop

import (
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poster takes functions from any goroutine. The eventfd is written only if the loop sleeps or is
// about to, and only by the first function: a burst costs one wake-up, and what the loop's own
// threads post costs none.
type poster struct {
	wakefd int

	// The loop sets asleep and then looks at pending; others set pending and then look at asleep.
	// So at least one of the two sees what the other has set.
	pending atomic.Bool // the queue has something; changes under mu
	asleep  atomic.Bool // the loop blocks, and the eventfd was not written yet

	mu      sync.Mutex
	queue   []func()
	threads []*Thread // to be notified
	closed  bool

	running   []func() // the loop's: these are the other halves of double buffers
	notifying []*Thread
}

// Post queues f to be called on the loop. Any goroutine may call it, and it does not wait. The
// functions are called in the order of their posts. The error is net.ErrClosed if Run is about to
// return, because no work is left or the grace period of a stop is over; then f is not called.
//
// The queue has no bound of its own: each source of posts keeps at most one outstanding.
func (l *Loop) Post(f func()) error {
	p := &l.post
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.queue = append(p.queue, f)
	p.wake()
	return nil
}

// notify queues t to be notified on the loop.
func (p *poster) notify(t *Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.threads = append(p.threads, t)
		p.wake()
	}
}

// wake wakes the loop if it sleeps. The caller holds the lock.
func (p *poster) wake() {
	p.pending.Store(true)
	if p.asleep.CompareAndSwap(true, false) {
		one := [8]byte{1}
		// The write fails only if the counter overflows, and then the loop wakes up all the same.
		// It is made under the lock, because the descriptor is closed once closed is set.
		_, _ = unix.Write(p.wakefd, one[:])
	}
}

// sleep announces that the loop is going to block, and reports whether it may.
func (p *poster) sleep() bool {
	p.asleep.Store(true)
	if p.pending.Load() {
		p.asleep.Store(false)
		return false
	}
	return true
}

// closeIfEmpty refuses posts from now on if none is queued. It reports whether none is.
func (p *poster) closeIfEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	empty := len(p.queue)+len(p.threads) == 0
	p.closed = p.closed || empty
	return empty
}

// refuse refuses posts from now on. Functions that are queued are still called.
func (p *poster) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *poster) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.queue, p.threads = nil, nil
}

// runPosted calls the functions that were posted, and then notifies threads, including those that
// these functions have notified.
func (l *Loop) runPosted() {
	p := &l.post
	if !p.pending.Load() {
		return
	}
	p.mu.Lock()
	p.running, p.queue = p.queue, p.running[:0]
	p.mu.Unlock()
	for i, f := range p.running {
		p.running[i] = nil
		l.pulse.beat()
		f()
	}
	p.mu.Lock()
	p.notifying, p.threads = p.threads, p.notifying[:0]
	p.pending.Store(len(p.queue) > 0)
	p.mu.Unlock()
	for i, t := range p.notifying {
		p.notifying[i] = nil
		t.notified.Store(false) // before t asks its sources
		t.notify()
	}
}
