package coro

// Defer registers f to be called by RunDeferred, or when the task has returned, panicked or was
// killed. Only the task's own goroutine may call it.
func (c *Coro) Defer(f func()) { c.deferred = append(c.deferred, f) }

// Mark returns the present length of the list of deferred calls, for RunDeferred.
func (c *Coro) Mark() int { return len(c.deferred) }

// RunDeferred calls what was deferred since mark, last first. If a call panics or unwinds the
// goroutine, the rest are called all the same, as with Go's own defer. What is deferred meanwhile
// is called, too.
func (c *Coro) RunDeferred(mark int) {
	if len(c.deferred) <= mark {
		return
	}
	defer func() {
		if len(c.deferred) > mark { // left by a panic or runtime.Goexit
			c.RunDeferred(mark)
		}
	}()
	for len(c.deferred) > mark {
		last := len(c.deferred) - 1
		f := c.deferred[last]
		c.deferred[last] = nil
		c.deferred = c.deferred[:last]
		f()
	}
}

// TakeDeferred returns what is deferred, first to last, and forgets it.
func (c *Coro) TakeDeferred() []func() {
	if len(c.deferred) == 0 {
		return nil
	}
	taken := append([]func(){}, c.deferred...) // the room stays with the coroutine
	clear(c.deferred)
	c.deferred = c.deferred[:0]
	return taken
}
