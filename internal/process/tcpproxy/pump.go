package tcpproxy

import (
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/loop"
)

// reasons are the results for the reasons of a tunnel's end.
var reasons = [...]result{tunnel.Complete: complete, tunnel.ClientLeft: clientLeft,
	tunnel.UpFailed: upstreamFailed,
	tunnel.Idle:     idleTimeout, tunnel.TooOld: maxTime}

// pump moves what can be moved in both directions. Then it returns the wait after which the loop
// calls it again: a connection that waits has no coroutine.
func (c *connection) pump(t *loop.Thread) coro.Code {
	client, up := &c.tunnel.Client, &c.tunnel.Up
	c.client.ResetBudget()
	c.up.ResetBudget()
	for again := false; ; {
		before := c.tunnel.Moved()
		more, why := c.tunnel.Move(c.now(), nil)
		if why != tunnel.Open {
			c.result = reasons[why]
			return coro.Abort
		}
		if more || c.tunnel.Moved() != before {
			again = false
		}
		left, result := c.remaining()
		if left <= 0 {
			c.result = result
			return coro.Abort
		}
		if more {
			continue
		}
		c.addBytes()
		if c.up.WakeOnReady(t, !up.Ended && client.Held() == 0, up.Held() > 0) {
			// A read or a write returns the reason, if there is one.
			if again {
				up.Fail()
			}
			again = true
			continue
		}
		t.Layer().IdleTimeout(left)
		switch read, write := !client.Ended && up.Held() == 0, client.Held() > 0; {
		case read && write:
			return coro.WantReadWrite
		case read:
			return coro.WantRead
		case write:
			return coro.WantWrite
		}
		return coro.Suspend
	}
}
