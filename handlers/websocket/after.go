package websocket

import "time"

// After calls f once, when d has passed, on the connection's thread, like the methods of its
// Handler. A later call replaces the timer of an earlier one; with a nil f it only stops that
// timer. After is for connections under Serve. It does nothing for others, or once the connection
// has ended.
func (c *Conn) After(d time.Duration, f func(c *Conn)) {
	if c.handler == nil || c.phase >= closed {
		return
	}
	x := c.ensureExtra()
	x.timer, x.timerDue = f, c.now()+max(d, 0)
}

// untilTimer returns the time until the timer of After is due; negative: there is no timer.
func (c *Conn) untilTimer() time.Duration {
	if c.extra == nil || c.extra.timer == nil {
		return -1
	}
	return max(c.extra.timerDue-c.now(), 0)
}

// runTimer calls the function of After if it is due, and reports that.
func (c *Conn) runTimer() bool {
	if c.untilTimer() != 0 {
		return false
	}
	f := c.extra.timer
	c.extra.timer, c.extra.timerDue = nil, 0
	f(c)
	return true
}
