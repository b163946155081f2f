package sse

import (
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Handler has the callbacks of a stream under Serve. Its methods, and the functions given to
// Subscribe, are called on the stream's thread, one at a time. They are sequential code, which may
// wait for anything. A panic is logged and cuts the stream.
type Handler interface {
	// Open is called first, once the head has gone out and the handler of the request has returned.
	Open(s *Stream)

	// Closed is called once, and last, also if Open has panicked. err is loop.ErrClientGone,
	// http.ErrServerClosed after a stop for which the stream has sent all, loop.ErrDeadlineExceeded
	// after one that has left no time for it, the error of a write, or nil after Close or a panic.
	// Closed may wait although the client has left; but if a stop has killed the thread, its waits do
	// not return.
	Closed(s *Stream, err error)
}

// Serve answers the request with a stream, as Open does, and hands it to h. The handler of the
// request returns the result at once. While the stream has nothing to send, it holds no coroutine.
// Of the request it only keeps the context, the line in the access log, and functions of
// Request.Defer (with the request, for these), which all end with the stream. So h has to copy what
// it needs of the request.
//
// If the answer needs the handler's coroutine (a layer encodes it, or keeps it in a cache), the
// stream holds a coroutine.
func Serve(req *conn.Request, resp *conn.Response, h Handler) int {
	s, err := Open(req, resp)
	if err != nil {
		return http.StatusOK
	}
	s.handler = h
	v := (*served)(s)
	if s.tail, err = resp.Layer().KeepOpen(v); err != nil {
		v.runOnHandler(req.Thread)
	} else {
		s.resp = nil
	}
	return http.StatusOK
}

// Close ends the stream under Serve, once the Handler's method has returned.
func (s *Stream) Close() {
	if s.handler != nil {
		(*served)(s).end(nil)
	}
}

// Thread returns the thread that the stream belongs to, for functions that take one.
func (s *Stream) Thread() *loop.Thread { return s.thread }

// Topic is something to subscribe to: a *pubsub.Topic, *pubsub.Pattern or *pubsub.Presence.
type Topic interface {
	Subscribe(t *loop.Thread, o pubsub.Options) *pubsub.Subscription
}

// Subscribe subscribes a stream under Serve. f is called for each message, on the stream's thread,
// and once with nil if no more will come (see Subscription.Err). The subscription belongs to the
// stream. It ends with the stream, or by Unsubscribe. The caller may only unsubscribe: it neither
// reads from the subscription nor waits for it.
func (s *Stream) Subscribe(to Topic, o pubsub.Options,
	f func(s *Stream, m *pubsub.Message)) *pubsub.Subscription {
	o.Keep = true
	sub := to.Subscribe(s.thread, o)
	if s.handler == nil || s.phase == closed {
		sub.Unsubscribe()
		return sub
	}
	at := &s.subscriptions
	for *at != nil {
		at = &(*at).next
	}
	*at = &subscription{sub: sub, f: f}
	return sub
}

// subscription is one subscription of a stream.
type subscription struct {
	sub  *pubsub.Subscription
	f    func(s *Stream, m *pubsub.Message)
	next *subscription
}

// served is a stream under Serve: a conn.Keeper.
type served Stream

// phase is the progress of a served stream.
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
		v.handler.Open((*Stream)(v))
	}
	for n := 1; ; n++ {
		switch {
		case v.ended:
			return 0, false
		case t.Loop().Stopping():
			v.sendFinal()
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
		for f := v.subscriptions; f != nil && !v.ended; f = f.next {
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

// finalSendTime bounds how long a stream still sends at a stop. It is a variable only for tests.
var finalSendTime = 500 * time.Millisecond

// sendFinal delivers, at a stop, the messages that have arrived for the stream by now. It leaves
// messages of a queue group to members of other processes, and does not deliver messages that
// others publish at their ends (see Subscription.Remaining). It cuts off a client that keeps a
// write waiting for longer than that; if the time is over between two messages, the answer is
// complete, and v ends with loop.ErrDeadlineExceeded.
func (v *served) sendFinal() {
	s := (*Stream)(v)
	until := s.now() + finalSendTime
	s.setWriteDeadline(time.Now().Add(finalSendTime))
	defer s.setWriteDeadline(time.Time{}) // the end of the stream has limits of its own
	for f := v.subscriptions; f != nil; f = f.next {
		for n := 1; f.sub.Group() == ""; n++ {
			if s.now() >= until && f.sub.Ready() {
				v.end(loop.ErrDeadlineExceeded)
			}
			if v.ended || !v.deliver(f) {
				break
			}
			if n%stepsPerTurn == 0 {
				v.thread.Yield()
			}
		}
	}
}

// unwatch marks the stream as at work: messages of a queue group go to other members meanwhile.
func (v *served) unwatch() {
	if f := v.subscriptions; f != nil && f.next == nil {
		f.sub.Ready() // the stream takes the message at once, so no other member needs to be notified
	}
	for f := v.subscriptions; f != nil; f = f.next {
		f.sub.Unwatch(nil)
	}
}

// watch notifies the stream's thread of messages that will arrive. It reports whether there is one
// already.
func (v *served) watch() (some bool) {
	for f := v.subscriptions; f != nil; f = f.next {
		_ = f.sub.Watch(v.thread)
		some = f.sub.Ready() || some
	}
	if some {
		v.unwatch()
	}
	return some
}

// onlyRemaining reports whether the stream gets only the remaining messages. The first call of
// Subscription.Remaining fixes which these are.
func (v *served) onlyRemaining(f *subscription) bool {
	return v.thread.Loop().Stopping() && f.sub.Group() == ""
}

// deliver delivers one message, if there is one.
func (v *served) deliver(f *subscription) bool {
	var m *pubsub.Message
	switch {
	case f.f == nil:
		return false
	case v.onlyRemaining(f):
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
		for at := &v.subscriptions; *at != nil; at = &(*at).next {
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

func (f *subscription) end() {
	f.sub.Unwatch(nil)
	f.sub.Unsubscribe()
}

// end notes that the stream ends with err.
func (v *served) end(err error) {
	if !v.ended {
		if v.ended = true; err != nil {
			(*Stream)(v).ensureExtra().err = err
		}
	}
}

// End implements conn.Keeper.
func (v *served) End(t *loop.Thread) {
	was := v.phase
	v.end(nil)
	v.phase = closed
	for ; v.subscriptions != nil; v.subscriptions = v.subscriptions.next {
		v.subscriptions.end()
	}
	if was == opened {
		var err error
		if v.extra != nil {
			err = v.extra.err
		}
		t.KeepWaiting(true)
		v.handler.Closed((*Stream)(v), err)
	}
}

// runOnHandler serves a stream on its handler's coroutine, for an answer that needs the handler.
func (v *served) runOnHandler(t *loop.Thread) {
	defer v.End(t)
	for {
		idle, more := v.Run(t)
		if !more {
			return
		}
		_, _ = t.AwaitAny(idle, new(anyNotify), t.Loop().Stopped())
	}
}

// anyNotify is a source that is ready when its thread was notified, for any reason.
type anyNotify struct{ asked bool }

// Watch implements loop.Source.
func (n *anyNotify) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (n *anyNotify) Ready() bool {
	was := n.asked
	n.asked = true
	return was
}

// Unwatch implements loop.Source.
func (n *anyNotify) Unwatch(*loop.Thread) {}
