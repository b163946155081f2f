package websocket

import (
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Topic is something to subscribe to: a *pubsub.Topic, or a *pubsub.Pattern.
type Topic interface {
	Subscribe(t *loop.Thread, o pubsub.Options) *pubsub.Subscription
}

// Subscribe subscribes a connection under Serve. f is called for each message, on the connection's
// thread, as the methods of its Handler are; once with nil, if there will be no more (see
// Subscription.Err). The subscription is the connection's, and ends with it, or by Unsubscribe. The
// caller does not wait for it. The method that subscribes, and f, may take what has come by its
// Next; f is called for the rest.
//
// Relay is for messages that are sent as they are.
func (c *Conn) Subscribe(to Topic, o pubsub.Options,
	f func(c *Conn, m *pubsub.Message)) *pubsub.Subscription {
	o.Keep = true
	sub := to.Subscribe(c.thread, o)
	if c.h == nil || c.phase >= closed {
		sub.Unsubscribe()
		return sub
	}
	if o.Group == "" {
		_ = sub.Watch(c.thread) // as long as it lasts
	}
	at := &c.follows
	for *at != nil {
		at = &(*at).next
	}
	*at = &follow{sub: sub, f: f}
	return sub
}

// Relay subscribes a connection under Serve to messages that are sent as frame, a pubsub.Shared,
// makes them; it must not wait, nor call runtime.Goexit, and is called on the loop or on any
// thread. Those that have come by then go out together. When there will be no more, because the
// connection is too slow or has missed what was lost on its way from another process
// (pubsub.ErrLagged), it is closed with TryAgainLater. It stays open after Unsubscribe, and if the
// subscription was refused. For the rest see Subscribe.
func (c *Conn) Relay(to Topic, o pubsub.Options,
	frame func(m *pubsub.Message) *PreparedMessage) *pubsub.Subscription {
	sub := c.Subscribe(to, o, tooSlow)
	for f := c.follows; f != nil; f = f.next {
		if f.sub == sub {
			f.frame = frame
		}
	}
	return sub
}

func tooSlow(c *Conn, _ *pubsub.Message) { _ = c.Close(TryAgainLater, "too slow") }

// follow is one subscription of a connection.
type follow struct {
	sub  *pubsub.Subscription
	f    func(c *Conn, m *pubsub.Message)
	next *follow

	frame func(m *pubsub.Message) *PreparedMessage // of Relay
}

// held reports whether what is relayed waits for the end of a message that the program writes.
func (f *follow) held(c *Conn) bool { return f.frame != nil && c.writing() }

// last reports whether what the connection is to have is only what remains. The first look at that
// says what it is, even if it is nothing.
func (f *follow) last(c *Conn) bool { return c.thread.Loop().Stopping() && f.sub.Group() == "" }

// take returns the next message that the connection is to have; nil: there is none.
func (f *follow) take(c *Conn) *pubsub.Message {
	if f.last(c) {
		return f.sub.Remaining()
	}
	return f.sub.Next()
}

// deliver delivers one message, if there is one.
func (f *follow) deliver(c *Conn) bool {
	if f.f == nil || f.held(c) || !f.last(c) && !f.sub.Ready() {
		return false
	}
	m, give := f.take(c), f.f
	if m == nil {
		if f.sub.Err() == nil {
			return false
		}
		f.f = nil
		c.unfollow(f)
		if f.frame != nil && f.sub.Err() != pubsub.ErrLagged {
			return true
		}
	}
	if f.frame == nil || m == nil {
		give(c, m)
		return true
	}
	var few [stepsPerTurn]*PreparedMessage
	n := 0
	for ; m != nil; m = f.take(c) {
		few[n] = f.frame(m)
		if n++; n == len(few) {
			break
		}
	}
	_ = c.WritePrepared(few[:n]...)
	return true
}

// stepOut takes the subscriptions in queue groups out of the line, while the connection is busy:
// what is published goes to members that wait.
func (c *Conn) stepOut() {
	for f := c.follows; f != nil; f = f.next {
		if f.sub.Group() != "" {
			f.sub.Unwatch(c.thread)
		}
	}
}

// stepIn undoes stepOut, before the connection is idle, and reports whether something is there.
func (c *Conn) stepIn() (some bool) {
	for f := c.follows; f != nil; f = f.next {
		if f.sub.Group() != "" && !f.held(c) {
			_ = f.sub.Watch(c.thread)
			some = f.sub.Ready() || some
		}
	}
	return some
}

// unfollow forgets a subscription that has ended.
func (c *Conn) unfollow(f *follow) {
	f.end()
	for at := &c.follows; *at != nil; at = &(*at).next {
		if *at == f {
			*at = f.next
			return
		}
	}
}

func (f *follow) end() {
	f.sub.Unwatch(nil)
	f.sub.Unsubscribe()
}
