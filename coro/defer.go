package coro

// Defer has f called when RunDeferred comes down to it: at the end of the body at the latest, also when the body
// panics or is killed. Only the body's own goroutine may call it.
func (c *Coro) Defer(f func()) { c.deferred = append(c.deferred, f) }

// Mark returns the present height of the list of deferred calls, for RunDeferred.
func (c *Coro) Mark() int { return len(c.deferred) }

// RunDeferred calls what was deferred since mark, last first. A call that panics, or that ends the goroutine,
// does not keep the rest from being called, as with Go's own defer; what is deferred meanwhile is called too.
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
