package nats

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	ahead      = 16               // messages of a queue group that a process asks for at once
	ackWait    = 30 * time.Second // until another process gets what one has not taken
	memberless = 10 * time.Second // how long a queue group lives without any process
)

// selections are the patterns and queue groups that are selected. A goroutine reads each, by a
// consumer of the stream: there are few of them, beside topics.
type selections struct {
	mu     sync.Mutex
	cancel map[pubsub.Selection]context.CancelFunc
	closed bool
	ended  sync.WaitGroup
}

// Select implements pubsub.Selector. A pattern does not match topics whose names are longer than
// some hundred bytes. A message of a group that its process has taken, and not acknowledged when it
// was killed, is given to another one after half a minute; one that was sent twice may be given
// twice, to two processes.
func (e *Engine) Select(s pubsub.Selection, to *pubsub.Feed) error {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return natsgo.ErrConnectionClosed
	}
	if all.cancel == nil {
		all.cancel = make(map[pubsub.Selection]context.CancelFunc)
	}
	ctx, cancel := context.WithCancel(e.base.Context)
	all.cancel[s] = cancel
	c := &consumer{Engine: e, selection: s, to: to, since: time.Now(), seen: make(engine.Seen)}
	all.ended.Go(func() { c.run(ctx) })
	return nil
}

// Unselect implements pubsub.Selector.
func (e *Engine) Unselect(s pubsub.Selection) {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	if cancel := all.cancel[s]; cancel != nil {
		cancel()
		delete(all.cancel, s)
	}
}

// close waits for the goroutines, whose context has ended.
func (all *selections) close() {
	all.mu.Lock()
	all.closed = true
	for _, cancel := range all.cancel {
		cancel()
	}
	all.mu.Unlock()
	all.ended.Wait()
}

// consumer reads a selection, from one Select to its Unselect.
type consumer struct {
	*Engine
	selection pubsub.Selection
	to        *pubsub.Feed
	since     time.Time // when it was selected

	created time.Time // of the stream that was read
	last    uint64    // number in it of the last message that was read; 0: none
	seen    engine.Seen
}

func (c *consumer) run(ctx context.Context) {
	select {
	case <-c.reader.decided:
	case <-ctx.Done():
		return
	}
	defer c.base.Report(c, nil) // what is not selected any more is not cut off
	var b engine.Backoff
	for {
		err := c.session(ctx, &b)
		if ctx.Err() != nil {
			return
		}
		c.base.Report(c, err)
		select {
		case <-time.After(b.Next()):
		case <-ctx.Done():
			return
		}
	}
}

// session reads until there is an error.
func (c *consumer) session(ctx context.Context, b *engine.Backoff) error {
	conn := c.conn.Load()
	if conn == nil || !conn.IsConnected() {
		return natsgo.ErrDisconnected
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(engine.Patience))
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, c.place.stream)
	if err != nil {
		return err
	}
	from, err := c.consumer(ctx, stream)
	if err != nil {
		return err
	}
	size := 256
	if c.selection.Group != "" {
		size = ahead
	}
	messages, err := from.Messages(jetstream.PullMaxMessages(size), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	b.Reset()
	c.base.Report(c, nil)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if err := c.take(m); err != nil {
			return err
		}
	}
}

// consumer makes a consumer of the process's own, or that of the group.
func (c *consumer) consumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	s := c.selection
	subject := topics(c.place.stream) + token(s.Name)
	if s.Pattern {
		subject = topics(c.place.stream) + filter(s.Name)
	}
	if s.Group != "" {
		return stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:           fmt.Sprintf("lwango-%x", sha256.Sum256(fmt.Append(nil, s)))[:40],
			Description:       "queue group " + s.Group,
			FilterSubject:     subject,
			DeliverPolicy:     jetstream.DeliverNewPolicy,
			AckPolicy:         jetstream.AckExplicitPolicy,
			AckWait:           ackWait,
			InactiveThreshold: memberless,
		})
	}
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}}
	info := stream.CachedInfo()
	switch at := c.since.Add(time.Until(info.TimeStamp)); { // by the server's clock
	case c.created.IsZero():
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &at
	case c.created.Equal(info.Created) && c.last > 0:
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, c.last+1
	case c.created.Equal(info.Created):
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &at
	} // else another stream has come in its place, and all of it is new
	from, err := stream.OrderedConsumer(ctx, config)
	if err == nil && !c.created.Equal(info.Created) {
		c.created, c.last = info.Created, 0
	}
	return from, err
}

// take gives a message to the hub.
func (c *consumer) take(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	seq := meta.Sequence.Stream
	header := m.Headers()
	if header == nil {
		header = natsgo.Header{}
	}
	header.Set(headerStamp, meta.Timestamp.Format(time.RFC3339Nano))
	e := decode(&natsgo.Msg{Header: header, Data: m.Data()}, seq, "stream")
	e.Message.Topic = topicOf(strings.TrimPrefix(m.Subject(), topics(c.place.stream)), header)
	ours := c.selection.Group == "" && e.origin == c.base.Hub.Origin()
	// Numbers of an origin rise in each topic, and not beyond.
	if !ours && c.seen.Fresh(e.origin+" "+e.Message.Topic, e.number) {
		c.to.Deliver([]*pubsub.Message{e.Message})
	}
	c.last = seq
	if c.selection.Group == "" {
		return nil
	}
	return m.Ack()
}
