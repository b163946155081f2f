package websocket

import "time"

// After has f called once, when d has passed, on the connection's thread, as the methods of its
// Handler are. A later call replaces what an earlier one has asked for; with a nil f it only ends
// that. It is for connections under Serve, and does nothing for others, nor once the connection has
// ended.
func (c *Conn) After(d time.Duration, f func(c *Conn)) {
	if c.h == nil || c.phase >= closed {
		return
	}
	x := c.more()
	x.then, x.due = f, c.now()+max(d, 0)
}

// untilDue returns how long it is until something is due that After was asked for; negative:
// nothing is.
func (c *Conn) untilDue() time.Duration {
	if c.extra == nil || c.extra.then == nil {
		return -1
	}
	return max(c.extra.due-c.now(), 0)
}

// then calls what is due, if something is.
func (c *Conn) then() bool {
	if c.untilDue() != 0 {
		return false
	}
	f := c.extra.then
	c.extra.then, c.extra.due = nil, 0
	f(c)
	return true
}
