package conn

import (
	"errors"
	"log/slog"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Tail is the rest of an answer whose handler has returned, and left it to a Keeper: see KeepOpen. It
// belongs to the answer's thread.
type Tail struct {
	takeover
	via     carrier // nil while the answer is idle
	sent    int64   // of its content, since the handler has returned
	counter uint32  // see Request.SetCounter
	status  int16

	// Over HTTP/1.1.
	delimited delimiter
	last      bool // the connection ends with the answer
}

// Write sends p at once, as a piece of the answer's content, and waits while the client is slow to
// take it. Only the methods of the Keeper may call it. After an error the answer is cut.
func (w *Tail) Write(p []byte) (int, error) {
	if w.via == nil {
		return 0, ErrComplete
	}
	if len(p) == 0 {
		return 0, nil
	}
	err := w.via.data(p)
	if err == nil {
		err = w.via.flush()
	}
	if err != nil {
		return 0, err
	}
	w.sent += int64(len(p))
	return len(p), nil
}

// SetWriteDeadline sets the time by which the client has to have taken what is written, in place of
// write_timeout and min_rate; the zero Time: these again. It ends with the call of the Keeper.
func (w *Tail) SetWriteDeadline(by time.Time) {
	if w.via != nil {
		w.via.setWriteDeadline(by)
	}
}

// SetWriteDeadline is Tail.SetWriteDeadline for an answer whose handler has to stay.
func (w ResponseLayer) SetWriteDeadline(by time.Time) { w.setWriteDeadline(by) }

// errNoTail refuses a KeepOpen.
var errNoTail = errors.New("conn: the rest of the answer needs its handler")

// KeepOpen leaves the rest of the answer to k, as soon as the handler has returned: what HandOver says
// of a connection holds for the answer. k writes to the Tail. Behind End the answer is complete, unless
// a write has failed, k has panicked, or a stop has killed it; then it is cut.
//
// The head must have gone out (Flush), without a length; the request's body must have been read, and
// nothing may encode the answer or wait for it within the server. Otherwise the error says that the
// handler has to stay.
func (w ResponseLayer) KeepOpen(k Keeper) (*Tail, error) {
	x := w.x
	if w.phase != streamed || w.kind != gathered || w.enc != nil || w.size >= 0 || w.plan.bare ||
		len(w.buf)+len(w.trailer) > 0 || x.subrequest != nil || x.background != nil || x.duplex != nil ||
		x.crowds != nil || x.req.body.state != bodyEnded || x.stays != nil {
		return nil, errNoTail
	}
	var tail *Tail
	switch via := x.via.(type) {
	case *turn:
		if via.r < via.w || via.writeErr != nil || via.writing.MaxRate > 0 || via.body.state != bodyEnded {
			return nil, errNoTail
		}
		r := &tail1{connection: x.c}
		r.delimited, r.last = via.delimited, via.last
		tail, x.stays = &r.Tail, r
	case *h2stream:
		if via.err != nil || via.extended || via.writing.MaxRate > 0 || !via.body.ended {
			return nil, errNoTail
		}
		r := &tail2{h2stream: via}
		tail, x.stays = &r.Tail, r
	default:
		return nil, errNoTail
	}
	tail.of(x, false)
	tail.keeper, x.cancel = k, nil
	tail.counter, tail.status = x.req.counter, int16(w.status)
	x.counting = false
	if x.set.Count {
		p := x.c.port.tally.route(tail.counter)
		p.Got += x.req.body.read
		p.Sent += x.sentBody()
		p.Cache[x.cache]++
	}
	w.phase = hijacked
	return tail, nil
}

// finish notes that the answer has ended. The result is as laterLine.write has it.
func (w *Tail) finish(p *port) (crowds AccessLog) {
	t := p.tally
	t.Ended++
	if p.server.settings.Load().Count {
		p := t.route(w.counter)
		p.Status[min(max(w.status/100, 0), 5)]++
		p.Sent += w.sent
	}
	if w.line != nil {
		w.extra().sent = w.sent
		crowds = w.line.write(&w.takeover)
	}
	if w.cancel != nil {
		w.cancel(nil)
	}
	return crowds
}

// keepPace keeps the pace of the client between two runs, takePace takes it up again.
func (w *Tail) keepPace(p stream.Pace) {
	p.Excuse(nil) // the request has been read
	w.extra().pace = &p
}

// slow is exchange.slow for what comes behind the handler.
func (w *Tail) slow(log *slog.Logger, p *stream.Pace, from peer) {
	logSlow(log, tooSlow, p, false, "request_id", w.id(), "route", w.route(), "remote", from.addrPort())
}

func (w *Tail) takePace(p *stream.Pace) {
	if m := w.more; m != nil && m.pace != nil {
		*p, m.pace = *m.pace, nil
	}
}

// stayer is a body that goes on with an answer.
type stayer interface {
	loop.Task
	begin(t *loop.Thread) coro.Code
	lost(t *loop.Thread, p *port)
}

// lost ends an answer that has not begun to be kept open: its handler has called Goexit, or was killed.
func (w *Tail) lost(t *loop.Thread, p *port) {
	defer w.finish(p)
	w.conclude(t)
}

// tail1 is an answer of HTTP/1.1 that is kept open, and its thread's task. Each time that it runs it
// has the turn of its coroutine.
type tail1 struct {
	*connection
	Tail
}

// begin gives up the request, makes r the task of its thread, and runs it.
func (r *tail1) begin(t *loop.Thread) coro.Code {
	own := r.turn
	if own.flush() != nil {
		r.panicked = true // what comes is cut, and nobody reads it
	}
	if r.defers() {
		own.x.req.compact()
		own.strand()
	}
	own.release()
	t.KeepWaiting(false) // the handler's choice is not the keeper's
	loop.Indispensable(t)
	loop.Become(t, r)
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
	crowds := r.finish(r.port)
	if broken || r.last || crowds != nil && c.awaitLog(crowds, own.flush) != nil {
		own.closeAfter(true)
		loop.Become(t, c)
		if c.state&lingers != 0 {
			return c.linger()
		}
		return coro.Abort
	}
	own.release()
	c.KeepWaiting(false)
	loop.Become(t, c)
	return coro.Yield // c may have bytes that epoll does not tell of, and its Run has called this one
}

// exchange implements record: the request is over.
func (r *tail1) exchange() *exchange { return nil }

func (r *tail1) failed(what string, args ...any) {
	r.server().settings.Load().Logger.Error(what,
		append(args, "request_id", r.id(), "remote", r.remote.addrPort())...)
}

// Left is called by the loop when the client sends no more.
func (r *tail1) Left() {
	if r.cancel != nil {
		r.cancel(loop.ErrClientGone)
	}
}

// Ending is called by the loop before it ends the thread, which is idle: a stop kills it.
func (r *tail1) Ending() {
	loop.Last(&r.Thread, func() {
		defer r.finish(r.port)
		r.conclude(&r.Thread)
	})
}

// Describe says what the thread does, for a dump of threads.
func (r *tail1) Describe() string {
	return "client " + r.remote.addrPort().String() + ", kept open by request " + r.id() + ", route " + r.route()
}

// tail2 is tail1 over HTTP/2.
type tail2 struct {
	*h2stream
	Tail
}

func (r *tail2) begin(t *loop.Thread) coro.Code {
	t.KeepWaiting(false)
	loop.Become(t, r)
	r.keep()
	r.giveUp(t, r.defers())
	return r.Run(t)
}

// keep keeps the pace of the client, if it is not that with which Run begins.
func (r *tail2) keep() {
	r.out.Rest(r.s.port.loop)
	if w := &r.writing; w.Waited() || w.MinRate != r.s.set.MinRate {
		r.keepPace(*w)
	}
}

// giveUp gives up the request of a stream whose handler has returned. With kept, it leaves it to the
// functions that are deferred.
func (st *h2stream) giveUp(t *loop.Thread, kept bool) {
	x := st.x
	st.x = nil
	if x.cancel = nil; loop.AbandonCalls(t) {
		x.strand()
		st.work2 = nil // the function off the loop may read the request's bytes
		return
	}
	if kept {
		x.req.compact()
		x.strand()
	} else {
		x.end()
		x.rest()
	}
	st.giveWork(st.s.port)
}

// Run implements loop.Task.
func (r *tail2) Run(t *loop.Thread) coro.Code {
	st, p := r.h2stream, r.s.port
	st.takeWork(p)
	st.setPaces(r.s.set)
	r.takePace(&st.writing)
	st.keepsWaiting()
	r.via = st
	ended := true
	defer func() { // also when the thread is killed
		r.via = nil
		if ended {
			if crowds := r.finish(p); crowds != nil {
				r.s.crowds = crowds
			}
			st.leave(t)
		}
	}()
	idle, more, again := r.run(t)
	if more && st.err == nil {
		ended = false
		r.keep()
		st.giveWork(p)
		if again {
			return coro.Yield
		}
		loop.WakeOnNotify(t)
		loop.IdleTimeout(t, idle)
		return coro.Suspend
	}
	r.conclude(t)
	if errors.Is(st.err, stream.ErrTooSlow) {
		r.slow(r.s.set.Logger, st.slowest(), r.s.remote)
	}
	if !r.panicked {
		st.end(nil)
	}
	return coro.Abort
}

// exchange implements record: the request is over.
func (r *tail2) exchange() *exchange { return nil }

func (r *tail2) failed(what string, args ...any) {
	r.s.set.Logger.Error(what, append(args, "request_id", r.id(), "remote", r.s.remote.addrPort())...)
}

// Ending is called by the loop before it ends the thread, which is idle: a stop kills it.
func (r *tail2) Ending() {
	loop.Last(&r.thread, func() {
		defer r.leave(&r.thread)
		defer r.finish(r.s.port)
		r.conclude(&r.thread)
	})
}
