package loop

import (
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poster takes functions from any goroutine. The eventfd is written only where the loop sleeps, or is about to, and
// only by the first one: a burst costs one wake-up, and what the loop's own threads post costs none.
type poster struct {
	wakefd int

	// The loop sets asleep and then looks at pending; others set pending and then look at asleep. So one of the two
	// sees the other.
	pending atomic.Bool // the queue has something; changes under mu
	asleep  atomic.Bool // the loop blocks, and nobody has written the eventfd yet

	mu      sync.Mutex
	queue   []func()
	threads []*Thread // to be notified
	closed  bool

	running   []func() // the loop's: the other halves of double buffers
	notifying []*Thread
}

// Post has f called on the loop. Any goroutine may call it; it does not wait. Calls are made in order. The error is
// net.ErrClosed once Run is about to return, because no work is left or the grace period of a stop is over, and f is not
// called then.
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

// notify has t's notify called on the loop.
func (p *poster) notify(t *Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.threads = append(p.threads, t)
		p.wake()
	}
}

// wake is called under the lock.
func (p *poster) wake() {
	p.pending.Store(true)
	if p.asleep.CompareAndSwap(true, false) {
		one := [8]byte{1}
		// The write cannot fail but by the counter's overflow, and then the loop is woken all the same. It is made
		// under the lock: the descriptor is closed only after closed was set.
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

// rearm consumes the eventfd's count; runPosted follows in the next turn.
func (p *poster) rearm() {
	var buf [8]byte
	_, _ = unix.Read(p.wakefd, buf[:])
}

// closeIfEmpty refuses posts from now on, unless there is one.
func (p *poster) closeIfEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	empty := len(p.queue)+len(p.threads) == 0
	p.closed = p.closed || empty
	return empty
}

// refuse refuses posts from now on. What was posted before is still called.
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

// runPosted calls what was posted, and has the threads look that were notified, by these calls as well.
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
		t.notified.Store(false) // before it looks
		t.notify()
	}
}
