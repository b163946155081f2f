package nats

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// selections are the patterns and queue groups that are selected. Each has a goroutine and a
// consumer of the stream: there are far fewer of them than topics.
type selections struct {
	mu     sync.Mutex
	all    map[pubsub.Selection]*consumer
	closed bool
	ended  sync.WaitGroup
}

// Select implements pubsub.Selector. A pattern does not match topics whose names are longer than
// some hundred bytes. If a process is killed, its messages of a group are given to another process
// after half a minute. A message may be given twice, to two processes, if it was sent twice, or
// received while the broker was away.
func (e *Engine) Select(s pubsub.Selection, to *pubsub.Feed) error {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return natsgo.ErrConnectionClosed
	}
	if all.all == nil {
		all.all = make(map[pubsub.Selection]*consumer)
	}
	ctx, cancel := context.WithCancel(e.base.Context)
	c := &consumer{Engine: e, selection: s, to: to, since: time.Now(), cancel: cancel,
		backlog: e.base.Backlog(s.Name, to)}
	all.all[s] = c
	all.ended.Go(func() { c.run(ctx) })
	return nil
}

// Unselect implements pubsub.Selector.
func (e *Engine) Unselect(s pubsub.Selection) {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	if c := all.all[s]; c != nil {
		c.cancel()
		delete(all.all, s)
	}
}

// restart makes all selections begin a new session: the stream has lost messages, or was replaced
// by another one.
func (all *selections) restart() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range all.all {
		if c.restarted = true; c.end != nil {
			c.end(errStreamChanged)
		}
	}
}

var errStreamChanged = errors.New("the stream is not what it was")

// close waits for the goroutines, whose context has ended.
func (all *selections) close() {
	all.mu.Lock()
	all.closed = true
	for _, c := range all.all {
		c.cancel()
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
	cancel    context.CancelFunc

	// Under the lock of selections.
	end       context.CancelCauseFunc // of the session
	restarted bool

	created time.Time      // of the stream that was read
	foreign string         // origin of its messages without one
	last    uint64         // number in it of the last message that was read; 0: none
	seen    engine.Recent  // of a pattern, by origin and topic; of a group, by ID
	unacked unacked        // of a group
	backlog engine.Backlog // of a pattern
}

func (c *consumer) run(ctx context.Context) {
	select {
	case <-c.reader.decided:
	case <-ctx.Done():
		return
	}
	defer c.base.Report(c, nil) // an unselected consumer does not miss the broker
	defer c.release()
	var b engine.Backoff
	for {
		err := c.session(ctx, &b)
		switch {
		case ctx.Err() != nil:
			return
		case err == errStreamChanged:
			continue
		}
		c.base.Report(c, err)
		if engine.WaitOffering(ctx, b.Next(), c.backlog.Retry) != nil {
			return
		}
	}
}

// begin returns the context of a session.
func (c *consumer) begin(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c.selections.mu.Lock()
	defer c.selections.mu.Unlock()
	if c.end = end; c.restarted {
		c.restarted, c.last = false, 0
	}
	return ctx, end
}

// session reads until there is an error.
func (c *consumer) session(ctx context.Context, b *engine.Backoff) (err error) {
	ctx, end := c.begin(ctx)
	defer end(nil)
	defer func() {
		if context.Cause(ctx) == errStreamChanged {
			err = errStreamChanged
		}
	}()
	conn := c.conn.Load()
	if conn == nil || !conn.IsConnected() {
		return natsgo.ErrDisconnected
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(engine.AnswerTimeout))
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, c.target.stream)
	if err != nil {
		return err
	}
	from, err := c.consumer(ctx, stream)
	if err != nil {
		return err
	}
	if c.selection.Group != "" {
		return c.serveGroup(ctx, from, b)
	}
	messages, err := from.Messages(jetstream.PullMaxMessages(256), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	b.Reset()
	c.base.Report(c, nil)
	gap := stream.CachedInfo().State.LastSeq // messages up to this one were missed
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		e, err := c.read(m)
		if err != nil {
			return err
		}
		if err := c.pass(ctx, e, c.last <= gap); err != nil {
			return err
		}
	}
}

// pass gives a pattern's subscribers a message, unless they have it. It waits for room if the
// message is late.
func (c *consumer) pass(ctx context.Context, e entry, late bool) error {
	if e.origin == c.base.Hub.Origin() {
		return nil
	}
	// Numbers of an origin rise within a topic.
	fresh, lost := c.seen.Fresh(e.origin+" "+e.Message.Topic, e.number, e.Count)
	if !fresh {
		return nil
	}
	ms := []*pubsub.Message{e.Message}
	if lost > 0 {
		ms = []*pubsub.Message{c.backlog.Lost(lost), e.Message}
	}
	c.backlog.Add(ms, late || e.late)
	for n, _ := c.backlog.Waiting(); n > 0; n, _ = c.backlog.Waiting() {
		if err := pause(ctx, engine.RetryAfter); err != nil {
			return err
		}
		c.backlog.Retry()
	}
	return nil
}

// consumer makes a consumer for this process, or gets or makes that of the group.
func (c *consumer) consumer(ctx context.Context, stream jetstream.Stream) (
	from jetstream.Consumer, err error,
) {
	s := c.selection
	subject := topics(c.target.stream) + token(s.Name)
	if s.Pattern {
		subject = topics(c.target.stream) + filter(s.Name)
	}
	info := stream.CachedInfo()
	policy, seq, at, err := c.start(ctx, stream)
	if err != nil {
		return nil, err
	}
	if s.Group != "" {
		from, err = c.groupConsumer(ctx, stream, jetstream.ConsumerConfig{FilterSubject: subject,
			DeliverPolicy: policy, OptStartSeq: seq, OptStartTime: at})
	} else {
		from, err = stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{subject},
			DeliverPolicy:  policy, OptStartSeq: seq, OptStartTime: at})
	}
	if err == nil && !c.created.Equal(info.Created) {
		c.created, c.foreign, c.last = info.Created, foreign(info.Created), 0
		c.unacked = unacked{}
	}
	return from, err
}

// start returns with which message a consumer begins: by its number, or by the server's clock.
func (c *consumer) start(ctx context.Context, stream jetstream.Stream) (
	policy jetstream.DeliverPolicy, seq uint64, at *time.Time, err error,
) {
	info := stream.CachedInfo()
	same := c.created.Equal(info.Created)
	switch {
	case !same && !c.created.IsZero(): // another stream has come in its place, and all of it is new
		return jetstream.DeliverAllPolicy, 0, nil, nil
	case same && c.last > 0 && c.last <= info.State.LastSeq:
		return jetstream.DeliverByStartSequencePolicy, c.last + 1, nil, nil
	}
	early, err := clock(ctx, stream)
	since := c.since.Add(early)
	return jetstream.DeliverByStartTimePolicy, 0, &since, err
}

// clock returns by how much the server's clock is ahead of ours, at least. The delay of an answer
// makes the result too small, so clock asks a few times.
func clock(ctx context.Context, stream jetstream.Stream) (early time.Duration, err error) {
	early = math.MinInt64
	for range 5 {
		asked := time.Now()
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		if early = max(early, time.Until(info.TimeStamp)); time.Since(asked) < time.Millisecond {
			break
		}
	}
	return early, nil
}

// read reads a message.
func (c *consumer) read(m jetstream.Msg) (entry, error) {
	meta, err := m.Metadata()
	if err != nil {
		return entry{}, err
	}
	header := m.Headers()
	if header == nil {
		header = natsgo.Header{}
	}
	header.Set(headerStamp, meta.Timestamp.Format(time.RFC3339Nano))
	c.last = meta.Sequence.Stream
	e := decode(&natsgo.Msg{Header: header, Data: m.Data()}, c.last, c.foreign)
	e.Message.Topic = topicOf(strings.TrimPrefix(m.Subject(), topics(c.target.stream)), header)
	return e, nil
}
