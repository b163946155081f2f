package loop

import (
	"net"
	"sync"
)

// Chan is a Source that receives from a Go channel. FromChan makes it. It is for one thread at a
// time.
type Chan[T any] struct {
	ch   <-chan T
	want chan struct{} // tells the helper to receive a value; nil: there is no helper

	mu     sync.Mutex
	waiter *Thread
	state  chanState
	value  T
}

type chanState uint8

const (
	empty      chanState = iota
	receiving            // the helper is receiving
	full                 // there is a value; from here on the source is ready
	closed               // the channel was closed
	helperGone           // the thread that has started the helper has run its deferred calls
)

// FromChan returns a source that is ready when ch has a value, or is closed.
//
// A loop cannot wait for a channel, so a goroutine does. It runs from the first wait that finds the
// channel empty until the channel is closed, or until the thread that made that wait runs its
// deferred calls. After that, waits for the source fail with net.ErrClosed. So a thread that goes
// on for ever makes one source for a channel, and uses it again and again. The goroutine is at most
// one value ahead: if a wait returns for another reason, a value that arrives later is kept for the
// next wait, and lost if there is none.
func FromChan[T any](ch <-chan T) *Chan[T] { return &Chan[T]{ch: ch} }

// Value takes the value that was received. ok is false if the source is not ready, or has no value
// any more.
func (c *Chan[T]) Value() (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != full {
		return value, false
	}
	value = c.value
	var none T
	c.value, c.state = none, empty
	return value, true
}

// Watch implements Source.
func (c *Chan[T]) Watch(t *Thread) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == helperGone:
		return net.ErrClosed
	case c.waiter != nil:
		return ErrAwaited
	}
	c.waiter = t
	if c.state != empty {
		return nil
	}
	select { // often there is a value already
	case v, ok := <-c.ch:
		c.put(v, ok)
		return nil
	default:
	}
	if c.want == nil {
		c.want = make(chan struct{}, 1)
		quit := make(chan struct{})
		go c.receive(c.want, quit)
		t.Defer(func() {
			close(quit)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.state = helperGone
			if c.waiter != nil { // another thread
				Notify(c.waiter)
			}
		})
	}
	c.state = receiving
	c.want <- struct{}{}
	return nil
}

// receive is the helper goroutine.
func (c *Chan[T]) receive(want, quit chan struct{}) {
	for {
		select {
		case <-want:
		case <-quit:
			return
		}
		select {
		case v, ok := <-c.ch:
			c.mu.Lock()
			if c.state == receiving {
				c.put(v, ok)
			}
			waiter := c.waiter
			c.mu.Unlock()
			if waiter != nil {
				Notify(waiter)
			}
			if !ok {
				return
			}
		case <-quit:
			return
		}
	}
}

func (c *Chan[T]) put(v T, ok bool) {
	if c.state = closed; ok {
		c.value, c.state = v, full
	}
}

// Ready implements Source.
func (c *Chan[T]) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state >= full
}

// Unwatch implements Source.
func (c *Chan[T]) Unwatch(*Thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiter = nil
}
