package nats

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	prefetch      = 16               // messages of a queue group that a process asks for at once
	ackWait       = 30 * time.Second // of the consumer: see jetstream.ConsumerConfig
	memberless    = 5 * time.Minute  // how long a queue group lives without any process
	giveBackAfter = time.Second      // a process gives back messages without room after that
)

// unacked has the messages of a queue group that the process has and has not acknowledged.
type unacked struct {
	unreceived []delivery // taken by the feed, and received by no member yet
	next       *delivery  // the feed has no room for it yet
	refreshed  time.Time  // when InProgress was last called
}

// delivery is a message. number counts the messages that the feed has taken.
type delivery struct {
	jetstream.Msg
	*pubsub.Message
	number uint64
}

// groupConsumer returns the group's consumer. The first process creates it, for messages from its
// own Select on.
func (c *consumer) groupConsumer(
	ctx context.Context, stream jetstream.Stream, config jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	name := fmt.Sprintf("lwango-%x", sha256.Sum256(fmt.Append(nil, c.selection)))[:40]
	from, err := stream.Consumer(ctx, name)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return from, err
	}
	config.Durable = name
	config.Description = "queue group " + c.selection.Group
	config.AckPolicy = jetstream.AckExplicitPolicy
	config.AckWait = ackWait
	config.MaxAckPending = -1 // messages that some processes do not acknowledge do not stop others
	config.InactiveThreshold = memberless
	from, err = stream.CreateConsumer(ctx, config)
	if errors.Is(err, jetstream.ErrConsumerExists) { // another process was quicker
		return stream.Consumer(ctx, name)
	}
	return from, err
}

// serveGroup gives messages to members, until there is an error. It acknowledges a message when a
// member has received it, so the other messages go to another process when this one ends.
func (c *consumer) serveGroup(
	ctx context.Context, from jetstream.Consumer, b *engine.Backoff,
) error {
	for {
		messages, err := from.Messages(jetstream.PullMaxMessages(prefetch),
			jetstream.PullHeartbeat(heartbeat))
		if err != nil {
			return err
		}
		b.Reset()
		c.base.Report(c, nil)
		err = c.serveUntilBusy(ctx, messages)
		c.giveBack(messages)
		for err == nil && len(c.unacked.unreceived) > 0 { // until members have time again
			c.offerAndAck()
			err = pause(ctx, pollEvery)
		}
		if err != nil {
			return err
		}
	}
}

// serveUntilBusy gives messages to members, until there is an error, or members have received none
// for a while: then the error is nil.
func (c *consumer) serveUntilBusy(ctx context.Context, messages jetstream.MessagesContext) error {
	h, wait, idle := &c.unacked, time.Millisecond, time.Now()
	for {
		if c.offerAndAck() {
			wait, idle = time.Millisecond, time.Now()
		}
		if h.next != nil || len(h.unreceived) >= prefetch {
			if time.Since(idle) > giveBackAfter {
				return nil
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		m, err := next(ctx, messages, len(h.unreceived) > 0, wait)
		switch {
		case err != nil:
			return err
		case m == nil: // a member may have received what it has
			wait = min(2*wait, pollEvery)
			continue
		}
		wait, idle = time.Millisecond, time.Now()
		if err := c.receive(m); err != nil {
			return err
		}
	}
}

// next returns the next message, or nil after d if limited is set.
func next(ctx context.Context, messages jetstream.MessagesContext, limited bool, d time.Duration) (
	jetstream.Msg, error,
) {
	if !limited {
		return messages.Next(jetstream.NextContext(ctx))
	}
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m, err := messages.Next(jetstream.NextContext(short))
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return m, err
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receive takes a message, unless it has come before.
func (c *consumer) receive(m jetstream.Msg) error {
	e, err := c.read(m)
	if err != nil {
		return err
	}
	if fresh, _ := c.seen.Fresh(e.ID, 1, 0); fresh {
		c.unacked.next = &delivery{Msg: m, Message: e.Message}
		return nil
	}
	for i := range c.unacked.unreceived {
		if c.unacked.unreceived[i].ID == e.ID { // the broker has given it again
			c.unacked.unreceived[i].Msg = m
			return nil
		}
	}
	return m.Ack()
}

// offerAndAck gives the feed the next message if it has room, and acknowledges messages that
// members have received. It reports whether either has changed anything.
func (c *consumer) offerAndAck() (changed bool) {
	h := &c.unacked
	if h.next != nil {
		before, _ := c.to.Progress()
		if rest := c.to.Offer([]*pubsub.Message{h.next.Message}); len(rest) == 0 {
			taken, _ := c.to.Progress()
			if h.next.number = taken; taken > before {
				h.unreceived = append(h.unreceived, *h.next)
			} else if c.isUnselected() {
				return false
			} else { // it is for no member
				_ = h.next.Ack()
			}
			h.next, changed = nil, true
		}
	}
	_, received := c.to.Progress()
	for len(h.unreceived) > 0 && h.unreceived[0].number <= received && h.unreceived[0].Ack() == nil {
		h.unreceived, changed = h.unreceived[1:], true
	}
	if time.Since(h.refreshed) > ackWait/3 {
		h.refreshed = time.Now()
		for _, m := range h.unreceived {
			_ = m.InProgress()
		}
	}
	return changed
}

// isUnselected reports whether the selection was unselected. That happens before its Feed stops
// taking messages.
func (c *consumer) isUnselected() bool {
	c.selections.mu.Lock()
	defer c.selections.mu.Unlock()
	return c.selections.all[c.selection] != c
}

// giveBack ends a request for messages, and gives back the messages of it that are in no queue.
func (c *consumer) giveBack(messages jetstream.MessagesContext) {
	if h := c.unacked.next; h != nil {
		c.seen.Forget(h.ID)
		_ = h.Nak()
		c.unacked.next = nil
	}
	messages.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), giveBackAfter)
	defer cancel()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			break
		}
		_ = m.Nak()
	}
	messages.Stop()
}

// release gives back the messages that no member has received when the last member leaves.
func (c *consumer) release() {
	c.offerAndAck()
	for _, m := range c.unacked.unreceived {
		_ = m.Nak()
	}
}
