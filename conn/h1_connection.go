package conn

import (
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
	if t.Layer().Task() != loop.Task(c) {
		return runNext(t)
	}
	return code
}

// runNext runs the task that takes the place of the connection's. It is not a part of Run, whose
// frame is on the stack of every handler: 16 bytes more make a stack of 4 KiB one of 8.
//
//go:noinline
func runNext(t *loop.Thread) coro.Code {
	return t.Layer().Task().Run(t)
}

// leave ends what Run has begun.
func (c *connection) leave(t *loop.Thread) {
	if t.Layer().Task() != loop.Task(c) {
		if o := ownerOf(t); o != nil {
			leave(o, t)
			return
		}
	}
	if c.turn != nil {
		c.turn.leave()
	} else {
		c.RunDeferred(0)
	}
}

// turnOf returns the turn of t's coroutine.
func turnOf(t *loop.Thread) *turn {
	own, _ := t.Layer().Local().(*turn)
	if own == nil {
		own = newTurn()
		t.Layer().SetLocal(own)
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

// Client is an optional method of a loop.Task: it is the client of the request, if there is one.
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
		args = append(x.about(args...), "remote", x.req.RemoteAddr())
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
	case x == nil && c.state&served == 0:
		return client + ", no request yet"
	case x == nil:
		return client + ", idle"
	}
	return client + ", " + x.summary()
}
