package websocket

import "time"

// lastWords bounds how long a connection still sends at a stop. It is a variable only for tests.
var lastWords = 500 * time.Millisecond

// sendLast sends, at a stop, what has come for the connection by now: the close that is next ends
// it. What a queue group has is left to members of other processes, and what others publish at
// their ends is not for this one (see Subscription.Remaining). The time for all of it begins when
// the connection first finds that the loop stops. A peer that is too slow for that is cut off, here
// or by the close.
func (s *served) sendLast() {
	c := (*Conn)(s)
	x := c.more()
	if x.lastBy == 0 {
		x.lastBy = c.exactly() + lastWords
	}
	x.last = true
	defer func() { x.last = false }()
	for f := c.follows; f != nil; f = f.next {
		for n := 1; c.err == nil && f.sub.Group() == "" && !c.late() && f.deliver(c); n++ {
			if n%stepsPerTurn == 0 {
				c.thread.Yield()
			}
		}
	}
	if c.err == nil {
		_ = c.deliver()
	}
}

// hurry gives the close frame at a stop as much time as the last words have had: the peer may have
// used that up between two messages, and not within one.
func (c *Conn) hurry() {
	x := c.more()
	x.last, x.lastBy = true, c.exactly()+lastWords
}

// late reports whether the connection sends its last, and the time for that is over.
func (c *Conn) late() bool {
	x := c.extra
	return x != nil && x.last && c.exactly() >= x.lastBy
}
