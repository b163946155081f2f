package conn

import (
	"errors"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// h1KeptOpen is the rest of an answer of HTTP/1.1. Each time that its keeper is called it has the
// turn of its coroutine.
type h1KeptOpen struct {
	*connection
	Tail
}

// keepOpen implements carrier.
func (t *turn) keepOpen() (owner, *Tail) {
	if t.r < t.w || t.writeErr != nil || t.writing.MaxRate > 0 || t.body.state != bodyEnded {
		return nil, nil
	}
	r := &h1KeptOpen{connection: t.c}
	r.delimited, r.last = t.delimited, t.last
	return r, &r.Tail
}

// Run implements loop.Task.
func (r *h1KeptOpen) Run(t *loop.Thread) coro.Code { return runKeeper(r, t) }

// BeforeEnd is an optional method of a loop.Task.
func (r *h1KeptOpen) BeforeEnd() { endKeeper(r, &r.Thread) }

// ClientGone implements loop.Task.
func (r *h1KeptOpen) ClientGone() { r.clientLeft() }

// Describe says what the connection's thread does, for a dump of threads.
func (r *h1KeptOpen) Describe() string { return describe(r, "kept open") }

// exchange implements record.
func (r *h1KeptOpen) exchange() *exchange {
	if r.kept {
		return nil
	}
	return r.connection.exchange()
}

func (r *h1KeptOpen) failed(what string, args ...any) {
	if r.kept {
		logFailed(r, what, args)
	} else {
		r.connection.failed(what, args...)
	}
}

// peer implements owner.
func (r *h1KeptOpen) peer() peer { return r.remote }

// giveUp implements owner.
func (r *h1KeptOpen) giveUp(t *loop.Thread) {
	own := r.turn
	if own.flush() != nil {
		r.panicked = true // what comes is cut, and nobody reads it
	}
	own.x.cancel = nil // it is the takeover's
	if r.defers() {
		own.x.req.compact()
		own.abandon()
	}
	own.release()
	t.KeepWaiting(false) // the handler's choice is not the keeper's
	t.Layer().UnmarkIdle()
}

// begin implements owner.
func (r *h1KeptOpen) begin(t *loop.Thread) {
	own := turnOf(t)
	own.attach(r.connection)
	own.delimited, own.last = r.delimited, r.last
	r.takePace(&own.writing)
	r.via = own
}

// lasts implements owner.
func (r *h1KeptOpen) lasts(*loop.Thread) bool { return r.turn.writeErr == nil }

// rest implements owner.
func (r *h1KeptOpen) rest(*loop.Thread) coro.Code {
	if w := &r.turn.writing; w.Waited() {
		r.keepPace(*w)
	}
	r.detach()
	if r.tls != nil {
		slimTLS(r.tls, 0)
	}
	return coro.Suspend
}

// detach gives the turn back.
func (r *h1KeptOpen) detach() {
	r.via = nil
	r.turn.release()
}

// complete implements owner. It ends the answer, and the connection goes on with other requests.
func (r *h1KeptOpen) complete(t *loop.Thread) coro.Code {
	c, own := r.connection, r.turn
	if errors.Is(own.writeErr, stream.ErrTooSlow) {
		r.slow(own.c.port, &own.writing, r.remote)
	}
	if r.panicked {
		_ = own.abort(errAborted)
	} else {
		own.end(nil)
	}
	broken := own.flush() != nil
	fullLog := r.finish(r.port)
	if broken || r.last || fullLog != nil && c.awaitLog(fullLog, own.flush) != nil {
		own.closeAfter(true)
		if next := t.Layer().Task(); next != loop.Task(r) {
			return next.Run(t)
		}
		t.Layer().SetTask(c)
		return coro.Abort
	}
	r.detach()
	c.KeepWaiting(false)
	t.Layer().SetTask(c)
	return coro.Yield // c may have bytes that epoll does not tell of, and its Run has called this one
}

// release implements owner.
func (r *h1KeptOpen) release(*loop.Thread) {
	r.via = nil
	r.finish(r.port)
	if r.turn != nil {
		r.turn.leave()
	}
}
