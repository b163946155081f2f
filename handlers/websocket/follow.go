package websocket

import (
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Topic is something to subscribe to: a *pubsub.Topic, *pubsub.Pattern or *pubsub.Presence.
type Topic interface {
	Subscribe(t *loop.Thread, o pubsub.Options) *pubsub.Subscription
}

// Subscribe subscribes a connection under Serve. f is called for each message, on the connection's
// thread, like the methods of its Handler, and once with nil if no more will come (see
// Subscription.Err). The subscription belongs to the connection, and ends with it, or by
// Unsubscribe. The caller does not wait for it. The method that subscribes, and f, may take
// messages by Next; f is called for the others.
//
// Relay is for messages that are sent without change.
func (c *Conn) Subscribe(to Topic, o pubsub.Options,
	f func(c *Conn, m *pubsub.Message)) *pubsub.Subscription {
	o.Keep = true
	sub := to.Subscribe(c.thread, o)
	if c.handler == nil || c.phase >= closed {
		sub.Unsubscribe()
		return sub
	}
	if o.Group == "" {
		_ = sub.Watch(c.thread) // until the subscription ends
	}
	at := &c.subscriptions
	for *at != nil {
		at = &(*at).next
	}
	*at = &subscription{sub: sub, f: f}
	return sub
}

// Relay subscribes a connection under Serve to messages that are sent as frame, a pubsub.Shared,
// makes them; it must not wait, nor call runtime.Goexit, and is called on the loop or on any
// thread. Messages that have arrived by then go out together. If the connection is too slow, or has
// missed messages of another process (pubsub.ErrLagged), it is closed with TryAgainLater. It stays
// open after Unsubscribe, and if the subscription was refused. For the rest see Subscribe.
func (c *Conn) Relay(to Topic, o pubsub.Options,
	frame func(m *pubsub.Message) *PreparedMessage) *pubsub.Subscription {
	sub := c.Subscribe(to, o, tooSlow)
	for f := c.subscriptions; f != nil; f = f.next {
		if f.sub == sub {
			f.frame = frame
		}
	}
	return sub
}

func tooSlow(c *Conn, _ *pubsub.Message) { _ = c.Close(TryAgainLater, "too slow") }

// subscription is one subscription of a connection.
type subscription struct {
	sub  *pubsub.Subscription
	f    func(c *Conn, m *pubsub.Message)
	next *subscription

	frame func(m *pubsub.Message) *PreparedMessage // of Relay
}

// waitsForWriter reports whether relayed messages wait for the end of a message that the program
// writes.
func (f *subscription) waitsForWriter(c *Conn) bool { return f.frame != nil && c.writing() }

// onlyRemaining reports whether the connection gets only the remaining messages. The first call of
// Subscription.Remaining fixes which these are.
func (f *subscription) onlyRemaining(c *Conn) bool {
	return c.thread.Loop().Stopping() && f.sub.Group() == ""
}

// take returns the next message for the connection, or nil.
func (f *subscription) take(c *Conn) *pubsub.Message {
	if f.onlyRemaining(c) {
		return f.sub.Remaining()
	}
	return f.sub.Next()
}

// deliver delivers one message, if there is one.
func (f *subscription) deliver(c *Conn) bool {
	if f.f == nil || f.waitsForWriter(c) || !f.onlyRemaining(c) && !f.sub.Ready() {
		return false
	}
	m, give := f.take(c), f.f
	if m == nil {
		if f.sub.Err() == nil {
			return false
		}
		f.f = nil
		c.removeSubscription(f)
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

// leaveGroups leaves the queue groups while the connection is busy, so that messages go to members
// that wait.
func (c *Conn) leaveGroups() {
	for f := c.subscriptions; f != nil; f = f.next {
		if f.sub.Group() != "" {
			f.sub.Unwatch(c.thread)
		}
	}
}

// rejoinGroups undoes leaveGroups, before the connection is idle, and reports whether something is
// there.
func (c *Conn) rejoinGroups() (some bool) {
	for f := c.subscriptions; f != nil; f = f.next {
		if f.sub.Group() != "" && !f.waitsForWriter(c) {
			_ = f.sub.Watch(c.thread)
			some = f.sub.Ready() || some
		}
	}
	return some
}

// removeSubscription removes a subscription that has ended.
func (c *Conn) removeSubscription(f *subscription) {
	f.end()
	for at := &c.subscriptions; *at != nil; at = &(*at).next {
		if *at == f {
			*at = f.next
			return
		}
	}
}

func (f *subscription) end() {
	f.sub.Unwatch(nil)
	f.sub.Unsubscribe()
}
