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
// caller uses it for nothing else: it neither reads from it nor waits for it.
//
// So a room's message is framed once, and sent by:
//
//	c.Subscribe(room, pubsub.Options{}, func(c *websocket.Conn, m *pubsub.Message) {
//		if m != nil {
//			_ = c.WritePrepared(frame(m)) // frame is a pubsub.Shared
//		}
//	})
func (c *Conn) Subscribe(to Topic, o pubsub.Options, f func(c *Conn, m *pubsub.Message)) *pubsub.Subscription {
	o.Keep = true
	sub := to.Subscribe(c.thread, o)
	s := c.served
	if s == nil || s.phase >= closed {
		sub.Unsubscribe()
		return sub
	}
	_ = sub.Watch(c.thread) // as long as it lasts
	at := &s.follows
	for *at != nil {
		at = &(*at).next
	}
	*at = &follow{sub: sub, f: f}
	return sub
}

// follow is one subscription of a connection.
type follow struct {
	sub  *pubsub.Subscription
	f    func(c *Conn, m *pubsub.Message)
	next *follow
}

// deliver delivers one message, if there is one.
func (f *follow) deliver(c *Conn) bool {
	if f.f == nil || !f.sub.Ready() {
		return false
	}
	m, give := f.sub.Next(), f.f
	if m == nil {
		if f.sub.Err() == nil {
			return false
		}
		f.f = nil
		c.served.drop(f)
	}
	give(c, m)
	return true
}

// drop forgets a subscription that has ended.
func (s *served) drop(f *follow) {
	f.end()
	for at := &s.follows; *at != nil; at = &(*at).next {
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
