package conn

import (
	"errors"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// h2KeptOpen is the rest of an answer of HTTP/2.
type h2KeptOpen struct {
	*h2stream
	Tail
}

// keepOpen implements carrier.
func (st *h2stream) keepOpen() (owner, *Tail) {
	if st.err != nil || st.extended || st.writing.MaxRate > 0 || !st.body.ended {
		return nil, nil
	}
	r := &h2KeptOpen{h2stream: st}
	return r, &r.Tail
}

// Run implements loop.Task.
func (r *h2KeptOpen) Run(t *loop.Thread) coro.Code { return runKeeper(r, t) }

// BeforeEnd is an optional method of a loop.Task.
func (r *h2KeptOpen) BeforeEnd() { endKeeper(r, &r.thread) }

// ClientGone implements loop.Task.
func (r *h2KeptOpen) ClientGone() { r.clientLeft() }

// Describe says what the stream's thread does, for a dump of threads.
func (r *h2KeptOpen) Describe() string { return describe(r, "kept open") }

// exchange implements record.
func (r *h2KeptOpen) exchange() *exchange {
	if r.kept {
		return nil
	}
	return r.x
}

func (r *h2KeptOpen) failed(what string, args ...any) {
	if r.kept {
		logFailed(r, what, args)
	} else {
		r.h2stream.failed(what, args...)
	}
}

// peer implements owner.
func (r *h2KeptOpen) peer() peer { return r.s.remote }

// giveUp implements owner.
func (r *h2KeptOpen) giveUp(t *loop.Thread) {
	t.KeepWaiting(false) // the handler's choice is not the keeper's
	r.notePace()
	r.dropRequest(t, r.defers())
}

// notePace keeps the pace of the client, if it is not that with which a run begins.
func (r *h2KeptOpen) notePace() {
	r.out.StopWait(r.s.port.loop)
	if w := &r.writing; w.Waited() || w.MinRate != r.s.set.MinRate {
		r.keepPace(*w)
	}
}

// begin implements owner.
func (r *h2KeptOpen) begin(*loop.Thread) {
	st := r.h2stream
	st.takeActiveState(r.s.port)
	st.setPaces(r.s.set)
	r.takePace(&st.writing)
	st.keepsWaiting()
	r.via = st
}

// lasts implements owner.
func (r *h2KeptOpen) lasts(*loop.Thread) bool { return r.err == nil }

// rest implements owner.
func (r *h2KeptOpen) rest(*loop.Thread) coro.Code {
	r.notePace()
	r.giveActiveState(r.s.port)
	r.via = nil
	return coro.Suspend
}

// complete implements owner. It ends the answer.
func (r *h2KeptOpen) complete(*loop.Thread) coro.Code {
	if errors.Is(r.err, stream.ErrTooSlow) {
		r.slow(r.s.port, r.slowest(), r.s.remote)
	}
	if !r.panicked {
		r.end(nil)
	}
	return coro.Abort
}

// release implements owner.
func (r *h2KeptOpen) release(t *loop.Thread) {
	defer r.leave(t)
	r.via = nil
	if fullLog := r.finish(r.s.port); fullLog != nil {
		r.s.fullLog = fullLog
	}
}

// dropRequest gives up the request of a stream whose handler has returned. With kept, it leaves the
// request to the functions that are deferred.
func (st *h2stream) dropRequest(t *loop.Thread, kept bool) {
	x := st.x
	st.x = nil
	if x.cancel = nil; t.Layer().AbandonCalls() {
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
