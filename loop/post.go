package loop

import (
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poster takes functions from any goroutine. The eventfd is written only by the first one since the loop last
// looked, so a burst costs one wake-up.
type poster struct {
	wakefd int

	awake atomic.Bool // the queue has something, and the eventfd was written; changes under mu

	mu     sync.Mutex
	queue  []func()
	closed bool

	running []func() // the loop's: the other half of a double buffer
}

// Post has f called on the loop. Any goroutine may call it; it does not wait. Calls are made in order. The error is
// net.ErrClosed once Run has returned, and f is not called then.
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
	if !p.awake.Load() {
		p.awake.Store(true)
		one := [8]byte{1}
		// The write cannot fail but by the counter's overflow, and then the loop is woken all the same. It is made
		// under the lock: the descriptor is closed only after closed was set.
		_, _ = unix.Write(p.wakefd, one[:])
	}
	return nil
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
	p.closed = p.closed || len(p.queue) == 0
	return p.closed
}

func (p *poster) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.queue = nil
}

func (l *Loop) runPosted() {
	p := &l.post
	if !p.awake.Load() {
		return
	}
	p.mu.Lock()
	p.running, p.queue = p.queue, p.running[:0]
	p.awake.Store(false)
	p.mu.Unlock()
	for i, f := range p.running {
		p.running[i] = nil
		l.pulse.beat()
		f()
	}
}
