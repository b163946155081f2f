package conn

import (
	"errors"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// tail1 is an answer of HTTP/1.1 that is kept open, and its thread's task. Each time that it runs
// it has the turn of its coroutine.
type tail1 struct {
	*connection
	Tail
}

// keepOpen implements carrier.
func (t *turn) keepOpen() (stayer, *Tail) {
	if t.r < t.w || t.writeErr != nil || t.writing.MaxRate > 0 || t.body.state != bodyEnded {
		return nil, nil
	}
	r := &tail1{connection: t.c}
	r.delimited, r.last = t.delimited, t.last
	return r, &r.Tail
}

// begin gives up the request, makes r the task of its thread, and runs it.
func (r *tail1) begin(t *loop.Thread) coro.Code {
	own := r.turn
	if own.flush() != nil {
		r.panicked = true // what comes is cut, and nobody reads it
	}
	if r.defers() {
		own.x.req.compact()
		own.abandon()
	}
	own.release()
	t.KeepWaiting(false) // the handler's choice is not the keeper's
	loop.UnmarkIdle(t)
	loop.SetTask(t, r)
	return r.Run(t)
}

// Run implements loop.Task.
func (r *tail1) Run(t *loop.Thread) coro.Code {
	own := turnOf(t)
	own.attach(r.connection)
	own.delimited, own.last = r.delimited, r.last
	r.takePace(&own.writing)
	r.via = own
	ended := true
	defer func() { // also when the thread is killed
		r.via = nil
		if ended {
			r.finish(r.port)
		}
		if r.turn != nil {
			own.release()
		}
	}()
	idle, more, again := r.run(t)
	if more && own.writeErr == nil {
		ended = false
		if own.writing.Waited() {
			r.keepPace(own.writing)
		}
		own.release()
		if r.tls != nil {
			slimTLS(r.tls, 0)
		}
		if again {
			return coro.Yield
		}
		loop.WakeOnNotify(t)
		loop.IdleTimeout(t, idle)
		return coro.Suspend
	}
	r.conclude(t)
	if errors.Is(own.writeErr, stream.ErrTooSlow) {
		r.slow(own.set.Logger, &own.writing, r.remote)
	}
	if r.panicked {
		_ = own.abort(errAborted)
	} else {
		own.end(nil)
	}
	c := r.connection
	broken := own.flush() != nil
	ended = false
	fullLog := r.finish(r.port)
	if broken || r.last || fullLog != nil && c.awaitLog(fullLog, own.flush) != nil {
		own.closeAfter(true)
		loop.SetTask(t, c)
		if c.state&lingers != 0 {
			return c.linger()
		}
		return coro.Abort
	}
	own.release()
	c.KeepWaiting(false)
	loop.SetTask(t, c)
	return coro.Yield // c may have bytes that epoll does not tell of, and its Run has called this one
}

// exchange implements record: the request is over.
func (r *tail1) exchange() *exchange { return nil }

func (r *tail1) failed(what string, args ...any) {
	r.server().settings.Load().Logger.Error(what,
		append(args, "request_id", r.id(), "remote", r.remote.addrPort())...)
}

// ClientGone is called by the loop when the client sends no more.
func (r *tail1) ClientGone() {
	r.clientLeft()
}

// BeforeEnd is called by the loop before it ends the thread, which is idle: a stop kills it.
func (r *tail1) BeforeEnd() {
	loop.RunBeforeEnd(&r.Thread, func() {
		defer r.finish(r.port)
		r.conclude(&r.Thread)
	})
}

// Describe says what the thread does, for a dump of threads.
func (r *tail1) Describe() string {
	return "client " + r.remote.addrPort().String() + ", kept open by request " + r.id() +
		", route " + r.route()
}
