package conn

import (
	"context"
	"fmt"
	"net/netip"
	"time"
	"unique"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// owner is the task of a request's thread from Hijack or KeepOpen on, in place of the record. It
// owns the connection, the stream or the rest of the answer: while the handler still runs, while a
// keeper has it, and at the end. There is one type for each way and protocol, with a takeover in
// it. The functions of this file are what all of them do.
type owner interface {
	record
	loop.Task

	ofRequest() *takeover
	peer() peer // the client

	// giveUp gives up the request: the handler has returned, and a keeper goes on.
	giveUp(t *loop.Thread)

	// attach gives the keeper its connection; that of an answer has none. begin takes what else a run
	// needs. lasts reports, after the run, whether there can be another one. rest gives back what both
	// have taken, and returns what the thread waits for.
	attach()
	begin(t *loop.Thread)
	lasts(t *loop.Thread) bool
	rest(t *loop.Thread) coro.Code

	// complete is called after the keeper's End, and returns what the loop does next.
	complete(t *loop.Thread) coro.Code

	// release is called last, whatever has ended the keeper, or the handler without a keeper.
	release(t *loop.Thread)
}

// takeover is what an owner has of its request.
type takeover struct {
	cancel context.CancelCauseFunc  // of the request's context; nil: there is none
	line   *laterLine               // nil: no access log
	name   unique.Handle[routeName] // of the request's route; the zero Handle: none
	keeper Keeper                   // nil: the handler keeps it
	more   *leftover                // nil: it has none

	closeCode int32 // 0: unknown
	panicked  bool
	kept      bool // by keeper: its handler has returned
	finished  bool // see Tail.finish
}

// leftover is what few requests leave behind.
type leftover struct {
	sent, got int64    // see SetMoved
	deferred  []func() // by the handler, once the keeper has it
	id        string   // of a request without a line that was asked for its ID
	// of a client that has kept a write to a Tail waiting; nil: of one that has not
	pace *stream.Pace
}

func (h *takeover) extra() *leftover {
	if h.more == nil {
		h.more = new(leftover)
	}
	return h.more
}

// ofRequest implements owner.
func (h *takeover) ofRequest() *takeover { return h }

// setOwner makes o the task of x's thread. It takes what the owner needs of the request for long.
func setOwner(x *exchange, o owner, hijacked bool) {
	h := o.ofRequest()
	h.cancel, h.name = x.cancel, keptName(x)
	if h.line = x.logLater(hijacked); h.line == nil && x.req.idView != nil {
		h.extra().id = x.req.ID()
	}
	x.req.Thread.Layer().SetTask(o)
}

// ownerOf returns the owner that is the task of t; nil: no handler has taken over what t serves.
func ownerOf(t *loop.Thread) owner {
	o, _ := t.Layer().Task().(owner)
	return o
}

// takeoverOf returns the takeover of the request on t; nil: there is none.
func takeoverOf(t *loop.Thread) *takeover {
	if o := ownerOf(t); o != nil {
		return o.ofRequest()
	}
	return nil
}

// clientLeft cancels the request's context: the client has left.
func (h *takeover) clientLeft() {
	if h.cancel != nil {
		h.cancel(loop.ErrClientGone)
	}
}

// id returns the ID of the request; "": nothing else has it either.
func (h *takeover) id() string {
	switch {
	case h.line != nil:
		return string(h.line.text(lateID))
	case h.more != nil:
		return h.more.id
	}
	return ""
}

// keptName returns the name of x's route for an owner that outlives x.
func keptName(x *exchange) unique.Handle[routeName] {
	n := x.set.nameOf(x.req.counter)
	if n.route == "" {
		n.route = x.req.prefix
	}
	return unique.Make(n)
}

// ofRoute returns the name of the request's route.
func (h *takeover) ofRoute() (n routeName) {
	if h.name != (unique.Handle[routeName]{}) {
		n = h.name.Value()
	}
	return n
}

// defers reports whether the handler, or what has called it, has deferred functions. They may use
// the request until they have been called.
func (h *takeover) defers() bool { return h.more != nil && len(h.more.deferred) > 0 }

// takeDeferred leaves to the keeper, if there is one, what the handler on t has deferred.
func (h *takeover) takeDeferred(t *loop.Thread) (kept bool) {
	if h == nil || h.keeper == nil {
		return false
	}
	if all := t.Layer().TakeDeferred(); all != nil {
		h.extra().deferred = all
	}
	return true
}

// leave is called at the end of the record's Run. Unless a keeper goes on, it ends what o owns: the
// handler has returned, has called Goexit or was killed.
func leave(o owner, t *loop.Thread) {
	h := o.ofRequest()
	if h.kept {
		return
	}
	defer o.release(t)
	h.conclude(t) // if there is a keeper, its handler has not returned
	t.RunDeferred(0)
}

// runKeeper is the Run of o: it lets the keeper run once. The first call is that of the record,
// whose handler has returned; without a keeper it does nothing.
func runKeeper(o owner, t *loop.Thread) (next coro.Code) {
	h, rests := o.ofRequest(), false
	if !h.kept {
		if h.keeper == nil {
			return coro.Abort
		}
		o.giveUp(t) // if t is killed in it, the record calls leave
		h.kept = true
	}
	defer func() { // also when the thread is killed
		if !rests {
			o.release(t)
		}
	}()
	o.attach()
	o.begin(t)
	idle, more, again := h.run(t)
	if !more || !o.lasts(t) {
		h.conclude(t)
		return o.complete(t)
	}
	rests = true
	if next = o.rest(t); again {
		next = coro.Yield
	}
	if next != coro.Yield {
		t.Layer().WakeOnNotify()
		t.Layer().IdleTimeout(idle)
	}
	return next
}

// endKeeper is the BeforeEnd of o, whose thread t is idle: a stop kills it, or its time is over.
func endKeeper(o owner, t *loop.Thread) {
	t.Layer().RunBeforeEnd(func() {
		defer o.release(t)
		o.attach()
		o.ofRequest().conclude(t)
	})
}

// run lets the keeper run. A panic ends the connection, and nothing else. again says that the
// thread has waited after the keeper's last look, and may have missed something: the keeper is to
// run once more, before the thread is idle.
func (h *takeover) run(t *loop.Thread) (idle time.Duration, more, again bool) {
	if h.panicked { // the handler has
		h.conclude(t)
		return 0, false, false
	}
	defer func() { // also when the thread is killed
		if !more {
			h.conclude(t)
		}
	}()
	idle, goesOn, looked := h.call(t)
	return idle, goesOn, t.Loop().Layer().Resumes() != looked
}

// call calls the keeper's Run, and what that has deferred. looked is the loop's number of resumes
// when Run had looked at all there is.
func (h *takeover) call(t *loop.Thread) (idle time.Duration, more bool, looked int64) {
	returned := false
	defer func() {
		if !returned {
			p := recover()
			t.Cancel()
			_ = t.Join()
			if p != nil {
				panicked(t, p)
			}
		}
		t.RunDeferred(0)
	}()
	idle, goesOn := h.keeper.Run(t)
	looked = t.Loop().Layer().Resumes()
	if err := t.Join(); err != nil {
		threadFailed(t, err)
	}
	returned = true
	return idle, goesOn, looked
}

// conclude lets the keeper end, once, and calls what the handler has deferred.
func (h *takeover) conclude(t *loop.Thread) {
	k := h.keeper
	if k == nil {
		return
	}
	h.keeper = nil
	if m := h.more; m != nil {
		for _, f := range m.deferred {
			t.Defer(f)
		}
		m.deferred = nil
	}
	defer t.RunDeferred(0)
	defer func() {
		if p := recover(); p != nil {
			panicked(t, p)
		}
	}()
	k.End(t)
}

// describe says what o's thread does, for a dump of threads.
func describe(o owner, how string) string {
	h := o.ofRequest()
	return fmt.Sprintf("client %s, %s by request %s, route %q", o.peer().addrPort(), how, h.id(),
		h.ofRoute().route)
}

// logFailed is the failed of an owner whose request is over.
func logFailed(o owner, what string, args []any) {
	h := o.ofRequest()
	args = append(h.ofRoute().attrs(append(args, "request_id", h.id())), "remote", o.peer().addrPort())
	o.server().settings.Load().Logger.Error(what, args...)
}

// clientOf is the Client of o.
func clientOf(o owner) netip.Addr { return o.peer().addrPort().Addr() }
