package sse

import (
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Handler is what a stream does under Serve. Its methods, and the functions given to Subscribe, are
// called on the stream's thread, one at a time. They are sequential code, which may wait for
// anything. A panic is logged and cuts the stream.
type Handler interface {
	// Open is called first, once the head has gone out and the handler of the request has returned.
	Open(s *Stream)

	// Closed is called once, and last, also if Open has panicked. err is loop.ErrClientGone,
	// http.ErrServerClosed, the error of a write, or nil after Close or a panic. Its waits go on
	// although the client has left; but if a stop has killed the thread, they do not return.
	Closed(s *Stream, err error)
}

// Serve answers the request with a stream, as Open does, and lets h have it. The handler of the
// request returns the result at once. While the stream has nothing to send, it holds no coroutine
// and nothing of the request but its context, its line in the access log, and what was deferred by
// Request.Defer, with the request for it, which all end with the stream. So h has to take from the
// request what it needs.
//
// Where the answer cannot do without its handler (a layer encodes it, or keeps it in a cache), it
// is served all the same, and holds a coroutine.
func Serve(req *conn.Request, resp *conn.Response, h Handler) int {
	s, err := Open(req, resp)
	if err != nil {
		return http.StatusOK
	}
	s.h = h
	v := (*served)(s)
	if s.tail, err = resp.Layer().KeepOpen(v); err != nil {
		v.stay(req.Thread)
	} else {
		s.resp = nil
	}
	return http.StatusOK
}

// Close ends the stream under Serve, once the Handler's method has returned.
func (s *Stream) Close() {
	if s.h != nil {
		(*served)(s).end(nil)
	}
}

// Thread returns the thread that the stream belongs to, for functions that take one.
func (s *Stream) Thread() *loop.Thread { return s.thread }

// Topic is something to subscribe to: a *pubsub.Topic, or a *pubsub.Pattern.
type Topic interface {
	Subscribe(t *loop.Thread, o pubsub.Options) *pubsub.Subscription
}

// Subscribe subscribes a stream under Serve. f is called for each message, on the stream's thread;
// once with nil, if there will be no more (see Subscription.Err). The subscription is the stream's,
// and ends with it, or by Unsubscribe. The caller uses it for nothing else: it neither reads from
// it nor waits for it.
func (s *Stream) Subscribe(to Topic, o pubsub.Options,
	f func(s *Stream, m *pubsub.Message)) *pubsub.Subscription {
	o.Keep = true
	sub := to.Subscribe(s.thread, o)
	if s.h == nil || s.phase == closed {
		sub.Unsubscribe()
		return sub
	}
	at := &s.follows
	for *at != nil {
		at = &(*at).next
	}
	*at = &follow{sub: sub, f: f}
	return sub
}

// follow is one subscription of a stream.
type follow struct {
	sub  *pubsub.Subscription
	f    func(s *Stream, m *pubsub.Message)
	next *follow
}

// served is a stream under Serve: a conn.Keeper.
type served Stream

// phase is how far a served stream is.
type phase uint8

const (
	fresh  phase = iota
	opened       // Open was called
	closed       // Closed was called
)

// stepsPerTurn is how many messages in a row are sent before other threads of the loop get their
// turn.
const stepsPerTurn = 16

// Run implements conn.Keeper.
func (v *served) Run(t *loop.Thread) (idle time.Duration, more bool) {
	v.unwatch()
	if v.phase == fresh {
		v.phase = opened
		v.h.Open((*Stream)(v))
	}
	for n := 1; ; n++ {
		switch {
		case v.over:
			return 0, false
		case t.Loop().Stopping():
			v.sendLast()
			v.end(http.ErrServerClosed)
			return 0, false
		case t.Gone():
			v.end(loop.ErrClientGone)
			return 0, false
		}
		if n%stepsPerTurn == 0 {
			t.Yield()
		}
		some := false
		for f := v.follows; f != nil && !v.over; f = f.next {
			some = v.deliver(f) || some
		}
		if some {
			continue
		}
		if idle = (*Stream)(v).untilComment(); idle == 0 {
			_ = (*Stream)(v).Comment("")
		} else if !v.watch() {
			return idle, true
		}
	}
}

// lastWords bounds how long a stream still sends at a stop. It is a variable only for tests.
var lastWords = 500 * time.Millisecond

// sendLast delivers, at a stop, what has come for the stream by now. What a queue group has is left
// to members of other processes, and what others publish at their ends is not for this stream (see
// Subscription.Remaining). A client that is too slow for that is cut off.
func (v *served) sendLast() {
	s := (*Stream)(v)
	until := s.now() + lastWords
	s.setWriteDeadline(time.Now().Add(lastWords))
	defer s.setWriteDeadline(time.Time{}) // the end has limits of its own
	for f := v.follows; f != nil; f = f.next {
		for n := 1; !v.over && f.sub.Group() == "" && s.now() < until && v.deliver(f); n++ {
			if n%stepsPerTurn == 0 {
				v.thread.Yield()
			}
		}
	}
}

// unwatch takes the stream for at work: what comes for a queue group meanwhile is for its other
// members.
func (v *served) unwatch() {
	if f := v.follows; f != nil && f.next == nil {
		f.sub.Ready() // it takes what it was told of at once, so nobody else needs to be told
	}
	for f := v.follows; f != nil; f = f.next {
		f.sub.Unwatch(nil)
	}
}

// watch has the stream's thread told of what comes, unless something is there, which it reports.
func (v *served) watch() (some bool) {
	for f := v.follows; f != nil; f = f.next {
		_ = f.sub.Watch(v.thread)
		some = f.sub.Ready() || some
	}
	if some {
		v.unwatch()
	}
	return some
}

// last reports whether what the stream is to have is only what remains. The first look at that says
// what it is, even if it is nothing.
func (v *served) last(f *follow) bool { return v.thread.Loop().Stopping() && f.sub.Group() == "" }

// deliver delivers one message, if there is one.
func (v *served) deliver(f *follow) bool {
	var m *pubsub.Message
	switch {
	case f.f == nil:
		return false
	case v.last(f):
		m = f.sub.Remaining()
	case !f.sub.Ready():
		return false
	default:
		m = f.sub.Next()
	}
	give := f.f
	if m == nil {
		if f.sub.Err() == nil {
			return false
		}
		f.f = nil
		for at := &v.follows; *at != nil; at = &(*at).next {
			if *at == f {
				*at = f.next
				break
			}
		}
		f.end()
	}
	give((*Stream)(v), m)
	return true
}

func (f *follow) end() {
	f.sub.Unwatch(nil)
	f.sub.Unsubscribe()
}

// end notes that the stream ends, and why.
func (v *served) end(err error) {
	if !v.over {
		if v.over = true; err != nil {
			(*Stream)(v).more().err = err
		}
	}
}

// End implements conn.Keeper.
func (v *served) End(t *loop.Thread) {
	was := v.phase
	v.end(nil)
	v.phase = closed
	for ; v.follows != nil; v.follows = v.follows.next {
		v.follows.end()
	}
	if was == opened {
		var err error
		if v.extra != nil {
			err = v.extra.err
		}
		t.KeepWaiting(true)
		v.h.Closed((*Stream)(v), err)
	}
}

// stay is for an answer that needs its handler.
func (v *served) stay(t *loop.Thread) {
	defer v.End(t)
	for {
		idle, more := v.Run(t)
		if !more {
			return
		}
		_, _ = t.AwaitAny(idle, new(notified), t.Loop().Stopped())
	}
}

// notified is a source that is ready when its thread was notified for whatever reason.
type notified struct{ asked bool }

// Watch implements loop.Source.
func (n *notified) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (n *notified) Ready() bool {
	was := n.asked
	n.asked = true
	return was
}

// Unwatch implements loop.Source.
func (n *notified) Unwatch(*loop.Thread) {}
