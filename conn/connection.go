package conn

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// connection is the record of one client. An idle client costs nothing else, so every field counts
// thousands of times: what a request needs belongs to exchange.
type connection struct {
	loop.Thread
	port   *port
	x      *exchange // nil while idle
	tls    *tls.Conn // nil: plain, or before the handshake
	remote peer

	standing standing
	headed   bool // the record is part of a withHeader, see introduced; it never changes
	state    state
	logRound uint8 // with logUsed: its Share of the access log
	logUsed  uint16
}

// state is what has become of a connection, in bits.
type state uint8

const (
	served  state = 1 << iota // a request has come
	lingers                   // a lingering close follows, see lingering
	named                     // the header of the PROXY protocol has come
	secured                   // and it says that the client uses TLS, which the proxy has ended

	firstAgreed = iota // the bits from here on have the mark of the terms that the client has met
)

// Run is called by the loop. It serves requests until none is left that can be served without
// waiting.
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
	if c.state&lingers != 0 {
		return c.linger()
	}
	return code
}

// Client implements loop.Client: it is the client of the request, if there is one.
func (c *connection) Client() netip.Addr {
	if c.x != nil && c.x.req.client.IsValid() {
		return c.x.req.client.Addr()
	}
	return c.remote.addrPort().Addr()
}

// Flush is called by the loop before the thread waits. It sends the answers to earlier requests. As
// long as the thread does not wait, the answers to pipelined requests are gathered and go out
// together.
func (c *connection) Flush() {
	if c.x != nil {
		_ = c.x.flush()
	}
}

// Left is called by the loop when the client sends no more. The thread calls it as well, if its own
// read or write finds that before the loop does. Left cancels the request's context.
func (c *connection) Left() {
	if c.x != nil && c.x.req.cancel != nil && !c.x.resp.asked {
		c.x.req.cancel(loop.ErrClientGone)
	}
}

// Overdue is called by the loop when the idle time is over. A client that has not taken all of its
// answers yet is not idle. If the server closed the connection now, the kernel would hold up to
// megabytes for a client that does not read, and the server would not count that connection any
// more. If a request arrived then, the kernel would answer with a reset, which takes the rest of
// the answers away. So the connection stays while the client takes its answers as fast as
// write_timeout and min_rate demand.
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
	if taken := float64(before - left); taken > 0 &&
		taken >= float64(set.MinRate)*set.WriteTimeout.Seconds() {
		return set.WriteTimeout
	}
	c.resetOnClose()
	return 0
}

// resetOnClose makes the connection end with a reset, which drops what the client has not taken.
func (c *connection) resetOnClose() { sysio.ResetOnClose(c.FD()) }

// withStack returns the attributes of a log line about err. If that is a panic of another thread or
// goroutine, they have its stack.
func withStack(err error) []any {
	attributes := []any{"error", err}
	if e, ok := errors.AsType[*loop.PanicError](err); ok {
		attributes = append(attributes, "stack", string(e.Stack))
	}
	return attributes
}

// failed logs what went wrong with the present request.
func (c *connection) failed(what string, args ...any) {
	if c.x != nil {
		r := &c.x.req
		args = append(args, "request_id", r.ID(), "target", r.Target(), "remote", r.RemoteAddr())
	} else {
		args = append(args, "remote", c.remote.addrPort())
	}
	c.port.server.settings.Load().Logger.Error(what, args...)
}

// Ended is called by the loop when the thread has ended.
func (c *connection) Ended() {
	if c.state&lingers != 0 {
		c.countLingering(-1)
	}
	delete(c.port.untaken, c)
	c.port.server.admission.dismiss(c)
}

// serve answers requests as long as there are any, and returns what the loop does next.
func (x *exchange) serve() coro.Code {
	c := x.c
	if c.standing == refused {
		x.reject(errOverload)
		return coro.Abort
	}
	if c.headed && c.state&named == 0 {
		switch err := x.introduce(); {
		case err == stream.ErrWouldBlock:
			return x.idle()
		case c.standing == refused:
			x.reject(errOverload)
			return coro.Abort
		case err != nil:
			return coro.Abort
		case c.port.tls != nil && x.readEmpty(): // the handshake waits with a coroutine
			return x.idle()
		}
	}
	if c.port.tls != nil && c.tls == nil {
		if err := x.handshake(); err != nil {
			return coro.Abort
		}
	}
	for {
		x.set = c.port.server.settings.Load()
		if x.readEmpty() {
			return x.idle()
		}
		err := x.readHead()
		if err == nil {
			if !x.exchange() {
				return coro.Abort
			}
			x = c.x // another one, if this one was abandoned
			continue
		}
		if err == stream.ErrWouldBlock {
			return x.idle()
		}
		if bad, ok := err.(*http1.Error); ok {
			x.reject(bad)
		} else if x.flush() == nil { // the client has left: there is nothing to linger for
			x.closeTLS()
		}
		return coro.Abort
	}
}

// readEmpty reports whether readHead would find nothing, without a system call. Most requests come
// alone, and so it is the answer after most of them.
func (x *exchange) readEmpty() bool {
	return x.r == x.w && x.c.tls == nil && !x.stream.Unread() && !x.c.Loop().Stopping() &&
		!x.c.outdated()
}

// idle sends the answers, and leaves the connection idle until the next request comes.
func (x *exchange) idle() coro.Code {
	c := x.c
	if x.flush() != nil || c.Loop().Stopping() || c.outdated() {
		x.close()
		return coro.Abort
	}
	if c.tls != nil {
		slimTLS(c.tls, heldBuffer)
	}
	timeout := x.set.KeepAliveTimeout
	if c.state&served == 0 {
		timeout = x.set.HeaderTimeout
	}
	loop.Expendable(&c.Thread, c.Loop().Time(), false)
	loop.IdleTimeout(&c.Thread, timeout)
	return coro.WantRead
}

// reject answers a request that cannot be served, and closes the connection: after a framing error
// the server cannot tell where the next request begins (RFC 9112 section 9.3.1 allows the close,
// section 11.2 gives the reason).
func (x *exchange) reject(e *http1.Error) {
	line := x.refusedLine()
	x.begin()
	x.resp.close = true
	x.resp.finish(e.Status)
	x.countAnswer()
	x.logAccess(line)
	x.lingeringClose()
}
