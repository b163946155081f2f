package conn

import (
	"fmt"
	"net/netip"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// Run is called by the loop. It serves requests until none is left that can be served without
// waiting.
func (c *connection) Run(t *loop.Thread) coro.Code {
	own := turnOf(t)
	own.attach(c)
	defer c.leave(t) // also when a handler ends its goroutine, or a reader of its response panics
	code := own.serve()
	if c.state&(lingers|isHTTP2) != 0 || c.turn == nil || c.turn.x.stays != nil {
		return c.handOn(t, code)
	}
	return code
}

// handOn gives the thread the task that takes the place of c, if there is one, and runs that. If
// not, the loop does what code says.
func (c *connection) handOn(t *loop.Thread, code coro.Code) coro.Code {
	switch {
	case c.state&lingers != 0:
		return c.linger()
	case c.state&isHTTP2 != 0:
		return c.turn.beginSession().Run(t)
	case c.turn != nil:
		return c.turn.x.stays.begin(t)
	}
	if h, _ := loop.TaskOf(t).(*handed); h != nil && h.keeper != nil {
		return h.begin(t)
	}
	return code
}

// beginSession leaves the connection to HTTP/2, with what was read so far, and returns what serves
// it now.
func (t *turn) beginSession() loop.Task {
	s := t.c.newSession(t.set, t.in[t.r:t.w])
	t.r = t.w
	t.leave()
	s.begin()
	return s
}

// leave ends what Run has begun.
func (c *connection) leave(t *loop.Thread) {
	switch {
	case c.turn == nil:
		if h, _ := loop.TaskOf(t).(*handed); h != nil {
			h.leave(t)
		} else {
			c.RunDeferred(0)
		}
	case c.turn.x.stays != nil:
		c.leaveKept(t)
	default:
		c.turn.leave()
	}
}

// leaveKept is leave of a connection whose answer was kept open.
func (c *connection) leaveKept(t *loop.Thread) {
	defer c.turn.leave()
	c.turn.x.stays.lost(t, c.port)
}

// turnOf returns the turn of t's coroutine.
func turnOf(t *loop.Thread) *turn {
	own, _ := loop.Local(t).(*turn)
	if own == nil {
		own = newTurn()
		loop.SetLocal(t, own)
	}
	return own
}

// exchange returns the present one; nil: the connection is idle, or a handler has taken it over.
func (c *connection) exchange() *exchange {
	if c.turn == nil {
		return nil
	}
	return c.turn.x
}

// Client implements loop.Client: it is the client of the request, if there is one.
func (c *connection) Client() netip.Addr {
	if x := c.exchange(); x != nil && x.req.client.IsValid() {
		return x.req.client.Addr()
	}
	return c.remote.addrPort().Addr()
}

// Flush is called by the loop before the thread waits. It sends the answers to earlier requests. As
// long as the thread does not wait, the answers to pipelined requests are gathered and go out
// together.
func (c *connection) Flush() {
	if c.turn != nil {
		_ = c.turn.flush()
	}
}

// ClientGone is called by the loop when the client sends no more. The thread calls it as well, if
// its own read or write finds that before the loop does. ClientGone cancels the request's context.
func (c *connection) ClientGone() {
	if x := c.exchange(); x != nil {
		if a := x.resp.tap; a != nil && a.leave() {
			return
		}
		x.canceled(loop.ErrClientGone)
	}
}

// failed logs what went wrong with the present request.
func (c *connection) failed(what string, args ...any) {
	if x := c.exchange(); x != nil {
		r := &x.req
		args = append(args, "request_id", r.ID(), "target", r.Target(), "remote", r.RemoteAddr())
	} else {
		args = append(args, "remote", c.remote.addrPort())
	}
	c.port.server.settings.Load().Logger.Error(what, args...)
}

// Describe says what the connection's thread does, for a dump of threads. It is called on the loop,
// while the thread does not run.
func (c *connection) Describe() string {
	client := "client " + c.remote.addrPort().String()
	x := c.exchange()
	switch {
	case c.state&lingers != 0:
		return client + ", lingering"
	case x == nil && c.state&served == 0:
		return client + ", no request yet"
	case x == nil:
		return client + ", idle"
	case x.req.Thread == nil || x.req.raw == nil:
		return client + ", between requests"
	}
	head := &x.req.head
	return fmt.Sprintf("%s, request %s, %s %.200q, route %q", client, x.req.ID(),
		head.Name.Of(x.req.raw), head.Target.Of(x.req.raw), x.req.prefix)
}
