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
	ahead      = 16               // messages of a queue group that a process asks for at once
	ackWait    = 30 * time.Second // until another process gets what one has and does not mention
	memberless = 5 * time.Minute  // how long a queue group lives without any process
	busy       = time.Second      // until a process gives back what it has no room for
)

// hand is what a process has of a queue group, and has not acknowledged.
type hand struct {
	held []held    // what no member has received yet
	next *held     // there is no room for it yet
	told time.Time // when the server last learnt that it is still needed
}

// held is a message. number counts those that the feed has taken.
type held struct {
	jetstream.Msg
	*pubsub.Message
	number uint64
}

// ofGroup returns the group's consumer. The first process creates it, from its own start on.
func (c *consumer) ofGroup(
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
	config.MaxAckPending = -1 // what is stuck in some processes does not stop the others
	config.InactiveThreshold = memberless
	from, err = stream.CreateConsumer(ctx, config)
	if errors.Is(err, jetstream.ErrConsumerExists) { // another process was quicker
		return stream.Consumer(ctx, name)
	}
	return from, err
}

// share gives members what comes, until there is an error. A message is acknowledged when a member
// has received it, so what none has received when the process ends goes to another one.
func (c *consumer) share(ctx context.Context, from jetstream.Consumer, b *engine.Backoff) error {
	for {
		messages, err := from.Messages(jetstream.PullMaxMessages(ahead),
			jetstream.PullHeartbeat(heartbeat))
		if err != nil {
			return err
		}
		b.Reset()
		c.base.Report(c, nil)
		err = c.serve(ctx, messages)
		c.giveBack(messages)
		for err == nil && len(c.hand.held) > 0 { // until members have time again
			c.settle()
			err = pause(ctx, often)
		}
		if err != nil {
			return err
		}
	}
}

// serve gives members what comes, until there is an error, or they have been busy for a while: then
// the error is nil.
func (c *consumer) serve(ctx context.Context, messages jetstream.MessagesContext) error {
	h, wait, idle := &c.hand, time.Millisecond, time.Now()
	for {
		if c.settle() {
			wait, idle = time.Millisecond, time.Now()
		}
		if h.next != nil || len(h.held) >= ahead {
			if time.Since(idle) > busy {
				return nil
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		m, err := next(ctx, messages, len(h.held) > 0, wait)
		switch {
		case err != nil:
			return err
		case m == nil: // a member may have received what it has
			wait = min(2*wait, often)
			continue
		}
		wait, idle = time.Millisecond, time.Now()
		if err := c.receive(m); err != nil {
			return err
		}
	}
}

// next returns the next message, or nil after some time if that is limited.
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

// receive takes a message, which may have come before.
func (c *consumer) receive(m jetstream.Msg) error {
	e, err := c.read(m)
	if err != nil {
		return err
	}
	if fresh, _ := c.seen.Fresh(e.ID, 1, 0); fresh {
		c.hand.next = &held{Msg: m, Message: e.Message}
		return nil
	}
	for i := range c.hand.held {
		if c.hand.held[i].ID == e.ID { // it was given again, and still waits
			c.hand.held[i].Msg = m
			return nil
		}
	}
	return m.Ack()
}

// settle gives the feed what it has room for, and acknowledges what members have received. It
// reports whether anything has changed.
func (c *consumer) settle() (changed bool) {
	h := &c.hand
	if h.next != nil {
		before, _ := c.to.Progress()
		if rest := c.to.Offer([]*pubsub.Message{h.next.Message}); len(rest) == 0 {
			taken, _ := c.to.Progress()
			if h.next.number = taken; taken > before {
				h.held = append(h.held, *h.next)
			} else if c.gone() {
				return false
			} else { // it is for no member
				_ = h.next.Ack()
			}
			h.next, changed = nil, true
		}
	}
	_, received := c.to.Progress()
	for len(h.held) > 0 && h.held[0].number <= received && h.held[0].Ack() == nil {
		h.held, changed = h.held[1:], true
	}
	if time.Since(h.told) > ackWait/3 {
		h.told = time.Now()
		for _, m := range h.held {
			_ = m.InProgress()
		}
	}
	return changed
}

// gone reports whether there are no members any more, or soon will not be. Whoever lets the feed
// take nothing has ended the consumer before.
func (c *consumer) gone() bool {
	c.selections.mu.Lock()
	defer c.selections.mu.Unlock()
	return c.selections.all[c.selection] != c
}

// giveBack ends a request for messages, and gives back what has come by it and is in no queue.
func (c *consumer) giveBack(messages jetstream.MessagesContext) {
	if h := c.hand.next; h != nil {
		c.seen.Forget(h.ID)
		_ = h.Nak()
		c.hand.next = nil
	}
	messages.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), busy)
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

// release gives back what no member has received when the last one leaves.
func (c *consumer) release() {
	c.settle()
	for _, m := range c.hand.held {
		_ = m.Nak()
	}
}
