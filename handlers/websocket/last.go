package websocket

import "time"

// finalSendTime bounds how long a connection still sends at a stop. It is a variable only for
// tests.
var finalSendTime = 500 * time.Millisecond

// sendFinal sends, at a stop, the messages that have arrived for the connection by now; then the
// connection is closed. It leaves messages of a queue group to members of other processes, and does
// not send messages that others publish at their ends (see Subscription.Remaining). The time for
// all messages begins when the connection first finds that the loop stops. A peer that is too slow
// for that is cut off, here or by the close.
func (s *served) sendFinal() {
	c := (*Conn)(s)
	x := c.ensureExtra()
	if x.finalDeadline == 0 {
		x.finalDeadline = c.exactNow() + finalSendTime
	}
	x.sendsFinal = true
	defer func() { x.sendsFinal = false }()
	for f := c.subscriptions; f != nil; f = f.next {
		for n := 1; c.err == nil && f.sub.Group() == "" && !c.finalTimePassed() && f.deliver(c); n++ {
			if n%stepsPerTurn == 0 {
				c.thread.Yield()
			}
		}
	}
	if c.err == nil {
		_ = c.deliver()
	}
}

// limitClose gives the close frame at a stop finalSendTime anew: the peer may have used up that
// time between two messages, and not within one.
func (c *Conn) limitClose() {
	x := c.ensureExtra()
	x.sendsFinal, x.finalDeadline = true, c.exactNow()+finalSendTime
}

// finalTimePassed reports whether the connection sends its final messages, and the time for that is
// over.
func (c *Conn) finalTimePassed() bool {
	x := c.extra
	return x != nil && x.sendsFinal && c.exactNow() >= x.finalDeadline
}
