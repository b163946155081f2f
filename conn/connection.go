package conn

import (
	"crypto/tls"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// connection is the record of one client. While the client is idle it is all there is of it, so every field counts
// thousands of times: what a request needs belongs to exchange.
type connection struct {
	loop.Thread
	port   *port
	x      *exchange // nil while idle
	tls    *tls.Conn // nil: plain, or before the handshake
	remote peer

	standing standing
	served   bool  // there has been a request
	lingers  bool  // it is to be closed, see lingering
	logRound uint8 // its Share of the access log, and logUsed
	logUsed  uint16
}

// Run is the loop's: it serves requests until none is left that could be served without waiting.
func (c *connection) Run(t *loop.Thread) coro.Code {
	x, _ := loop.Local(t).(*exchange)
	if x == nil {
		x = newExchange()
		loop.SetLocal(t, x)
	}
	x.attach(c)
	defer func() { // also when a handler ends its goroutine, or a reader of its response panics
		if c.x == nil {
			c.RunDeferred(0)
			return
		}
		c.x.leave()
	}()
	code := x.serve()
	if c.lingers {
		return c.linger()
	}
	return code
}

// Flush is the loop's: before the thread waits, the answers to earlier requests go out. While
// threads do not wait, the answers to pipelined requests go out together.
func (c *connection) Flush() {
	if c.x != nil {
		_ = c.x.flush()
	}
}

// Left is the loop's: the client sends no more. A read or a write of the thread's own may find that before the loop hears
// of it, and ends the request's context just so.
func (c *connection) Left() {
	if c.x != nil && c.x.req.cancel != nil {
		c.x.req.cancel(loop.ErrClientGone)
	}
}

// Overdue is the loop's: the idle time is over. A client that has not taken all of its answers yet
// is not idle. Closing would leave them to the kernel, which holds up to megabytes for a client
// that does not read, of a connection that does not count any more; and a request that came then
// would be answered with a reset, which takes the rest of them away. So the connection stays while
// the client takes what it has asked for, by the measure of write_timeout and min_rate.
func (c *connection) Overdue() time.Duration {
	set := c.port.server.settings.Load()
	left := sysio.Unsent(c.FD())
	if left == 0 {
		return 0
	}
	before, again := c.port.untaken[c]
	c.port.untaken[c] = left
	if !again {
		return set.WriteTimeout
	}
	if taken := float64(before - left); taken > 0 && taken >= float64(set.MinRate)*set.WriteTimeout.Seconds() {
		return set.WriteTimeout
	}
	c.resetOnClose()
	return 0
}

// resetOnClose makes the connection end with a reset, which drops what the client has not taken.
func (c *connection) resetOnClose() { sysio.ResetOnClose(c.FD()) }

// failed logs what went wrong with the present request.
func (c *connection) failed(what string, args ...any) {
	if c.x != nil {
		args = append(args, "target", c.x.req.Target())
	}
	c.port.server.settings.Load().Logger.Error(what, append(args, "remote", c.remote.addrPort())...)
}

// Ended is the loop's.
func (c *connection) Ended() {
	delete(c.port.untaken, c)
	c.port.server.admission.dismiss(c)
}

// serve answers requests as long as there are any, and says what the loop does next.
func (x *exchange) serve() coro.Code {
	c := x.c
	if c.standing == refused {
		x.reject(errOverload)
		return coro.Abort
	}
	if c.port.tls != nil && c.tls == nil {
		if err := x.handshake(); err != nil {
			return coro.Abort
		}
	}
	for {
		x.set = c.port.server.settings.Load()
		err := x.readHead()
		if err == nil {
			if !x.exchange() {
				return coro.Abort
			}
			x = c.x // it may have been abandoned
			continue
		}
		if err == stream.ErrWouldBlock {
			if x.flush() != nil || c.Loop().Stopping() {
				x.close()
				return coro.Abort
			}
			timeout := x.set.KeepAliveTimeout
			if !c.served {
				timeout = x.set.HeaderTimeout
			}
			loop.Expendable(&c.Thread, c.Loop().Time(), false)
			loop.IdleTimeout(&c.Thread, timeout)
			return coro.WantRead
		}
		if bad, ok := err.(*http1.Error); ok {
			x.reject(bad)
		} else if x.flush() == nil { // the client has left: there is nothing to linger for
			x.closeTLS()
		}
		return coro.Abort
	}
}

// reject answers what cannot be served, and closes: after a framing error nobody can say where the next request
// begins (RFC 9112 section 9.3.1 allows it, section 11.2 is why).
func (x *exchange) reject(e *http1.Error) {
	line := x.refusedLine()
	x.begin()
	x.resp.close = true
	x.resp.finish(e.Status)
	x.logAccess(line)
	x.lingeringClose()
}
