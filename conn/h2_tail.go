package conn

import (
	"errors"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// tail2 is tail1 over HTTP/2.
type tail2 struct {
	*h2stream
	Tail
}

// keepOpen implements carrier.
func (st *h2stream) keepOpen() (stayer, *Tail) {
	if st.err != nil || st.extended || st.writing.MaxRate > 0 || !st.body.ended {
		return nil, nil
	}
	r := &tail2{h2stream: st}
	return r, &r.Tail
}

func (r *tail2) begin(t *loop.Thread) coro.Code {
	t.KeepWaiting(false)
	loop.SetTask(t, r)
	r.keep()
	r.giveUp(t, r.defers())
	return r.Run(t)
}

// keep keeps the pace of the client, if it is not that with which Run begins.
func (r *tail2) keep() {
	r.out.StopWait(r.s.port.loop)
	if w := &r.writing; w.Waited() || w.MinRate != r.s.set.MinRate {
		r.keepPace(*w)
	}
}

// giveUp gives up the request of a stream whose handler has returned. With kept, it leaves it to
// the functions that are deferred.
func (st *h2stream) giveUp(t *loop.Thread, kept bool) {
	x := st.x
	st.x = nil
	if x.cancel = nil; loop.AbandonCalls(t) {
		x.abandon()
		st.activeState = nil // the function off the loop may read the request's bytes
		return
	}
	if kept {
		x.req.compact()
		x.abandon()
	} else {
		x.end()
		x.clear()
	}
	st.giveActiveState(st.s.port)
}

// Run implements loop.Task.
func (r *tail2) Run(t *loop.Thread) coro.Code {
	st, p := r.h2stream, r.s.port
	st.takeActiveState(p)
	st.setPaces(r.s.set)
	r.takePace(&st.writing)
	st.keepsWaiting()
	r.via = st
	ended := true
	defer func() { // also when the thread is killed
		r.via = nil
		if ended {
			if fullLog := r.finish(p); fullLog != nil {
				r.s.fullLog = fullLog
			}
			st.leave(t)
		}
	}()
	idle, more, again := r.run(t)
	if more && st.err == nil {
		ended = false
		r.keep()
		st.giveActiveState(p)
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

// BeforeEnd is called by the loop before it ends the thread, which is idle: a stop kills it.
func (r *tail2) BeforeEnd() {
	loop.RunBeforeEnd(&r.thread, func() {
		defer r.leave(&r.thread)
		defer r.finish(r.s.port)
		r.conclude(&r.thread)
	})
}
