package conn

import (
	"context"
	"fmt"
	"runtime/trace"
)

// Describe says what the connection's thread does, for a dump of threads. It is called on the loop,
// while the thread does not run.
func (c *connection) Describe() string {
	client := "client " + c.remote.addrPort().String()
	x, h := c.exchange(), takeoverOf(&c.Thread)
	switch {
	case c.state&lingers != 0:
		return client + ", lingering"
	case x == nil && h != nil:
		return fmt.Sprintf("%s, hijacked by request %s, route %q", client, h.id, h.route)
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

// traced makes the request a task of the runtime's trace, which is on, with its ID and its route.
// The context of the request is the task's, so that a handler's own regions and logs belong to it.
// The task ends behind the deferred calls of the handler, which are called even if it is killed.
func (x *exchange) traced() {
	c := x.c
	ctx, task := trace.NewTask(context.Background(), "request")
	x.task = ctx
	trace.Log(ctx, "id", x.req.ID())
	c.Defer(func() {
		if x := c.exchange(); x != nil {
			trace.Log(ctx, "route", x.req.prefix)
		} else if h := takeoverOf(&c.Thread); h != nil {
			trace.Log(ctx, "route", h.route)
		}
		task.End()
	})
}
