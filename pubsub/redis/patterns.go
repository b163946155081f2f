package redis

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	perPatternRead = 128              // entries that one read takes of all topics
	maxWait        = 1 << 10          // if so many messages of a pattern wait, the stream is not read
	keepEvery      = 10 * time.Minute // how often the expiry of the stream of all topics is renewed
)

// patternReader reads the stream of all topics of a shard, for the patterns of this process.
// Processes append to that stream while it exists, and a process that follows a pattern creates it.
type patternReader struct {
	*shard
	client *goredis.Client
	opened *atomic.Int32
	begun  uint64 // when the session began: milliseconds of the broker's clock

	begin     string    // the ID after which the first read began
	last      string    // entry that was read last
	refreshed time.Time // when the stream's expiry was last renewed

	catchingUp bool // the stream was not read to its end since an outage

	patterns map[*selected]*patternFeed // under the shard's lock
}

// patternFeed is a pattern that a patternReader reads.
type patternFeed struct {
	*selected
	from    uint64            // milliseconds of the broker's clock: older entries are not for it
	known   bool              // from is set
	fresh   []*pubsub.Message // read, and not given to the feed yet
	late    bool              // some of fresh are late
	backlog engine.Backlog
	seen    engine.Recent // by origin and topic: numbers of an origin rise within a topic
}

// followPattern begins to read the shard's topics for a pattern.
func (s *shard) followPattern(c *selected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.patternReader == nil {
		s.patternReader = &patternReader{shard: s, patterns: make(map[*selected]*patternFeed)}
		s.ended.Go(s.patternReader.run)
	}
	s.patternReader.patterns[c] = &patternFeed{selected: c, backlog: s.Backlog(c.Name, c.to)}
}

// unfollowPattern undoes followPattern.
func (s *shard) unfollowPattern(c *selected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patternReader != nil {
		delete(s.patternReader.patterns, c)
	}
}

// all returns the patterns. If there are none, it removes the reader from its shard.
func (t *patternReader) all() []*patternFeed {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.patterns) == 0 && t.patternReader == t {
		t.patternReader = nil
	}
	return slices.Collect(maps.Values(t.patterns))
}

func (t *patternReader) run() {
	defer t.Report(t, nil) // a reader that has returned does not miss the broker
	var b engine.Backoff
	for {
		err := t.session(&b)
		if err == nil || t.Context.Err() != nil {
			return
		}
		t.Report(t, err)
		if engine.WaitOffering(t.Context, b.Next(), func() bool {
			waiting, _ := t.offer(t.all())
			return waiting
		}) != nil || len(t.all()) == 0 {
			return
		}
	}
}

// session reads until there is an error, or no pattern any more.
func (t *patternReader) session(b *engine.Backoff) (err error) {
	opened := new(atomic.Int32)
	client, disconnect, err := t.connect(func() { opened.Add(1) })
	if err != nil {
		return err
	}
	defer disconnect()
	t.client, t.opened, t.refreshed, t.catchingUp = client, opened, time.Time{}, true
	ctx, cancel := t.Within(0)
	t.begun, err = brokerMillis(ctx, client)
	cancel()
	if err != nil {
		return err
	}
	for caughtUp := false; ; {
		if time.Since(t.refreshed) > keepEvery {
			if err := t.keepAllStream(t.client); err != nil {
				return err
			}
			if t.refreshed.IsZero() && t.last != "" {
				if err := t.verify(); err != nil {
					return err
				}
			}
			t.refreshed = time.Now()
		}
		all := t.all()
		if len(all) == 0 {
			return nil
		}
		block := heartbeat
		if !caughtUp {
			block = -1
		}
		more, err := t.poll(all, block)
		if err != nil {
			return err
		}
		if !more && !caughtUp {
			caughtUp = true
			b.Reset()
			t.Report(t, nil)
		}
	}
}

// recreate makes the session create the stream of all topics again if it is gone: processes append
// only to an existing one.
func (t *patternReader) recreate() error {
	ctx, cancel := t.Within(0)
	defer cancel()
	n, err := t.client.XLen(ctx, t.prefix+allKey).Result()
	if err == nil && n == 0 {
		t.refreshed = time.Time{}
	}
	return err
}

// keepAllStream creates the stream of all topics of the shard, unless it exists, and renews its
// expiry.
func (s *shard) keepAllStream(client *goredis.Client) error {
	ctx, cancel := s.Within(0)
	defer cancel()
	key := s.prefix + allKey
	n, err := client.XLen(ctx, key).Result()
	if err != nil {
		return err
	}
	p := client.TxPipeline()
	if n == 0 {
		p.XAdd(ctx,
			&goredis.XAddArgs{Stream: key, MaxLen: maxLength, Approx: true, Values: []any{"begin", ""}})
	}
	p.PExpire(ctx, key, maxAge)
	_, err = exec(ctx, p)
	return err
}

// verify asks the broker for the entry that was read last. If it is missing, as with a topic, the
// stream is read again from where it was first read, or it is another stream, all of which is new.
func (t *patternReader) verify() error {
	ctx, cancel := t.Within(0)
	defer cancel()
	key := t.prefix + allKey
	found, err := t.client.XRange(ctx, key, t.last, t.last).Result()
	if err != nil || len(found) > 0 || t.last == t.begin {
		return err
	}
	t.Log.Info("redis: the last message of the patterns is gone, some may be missing")
	found, err = t.client.XRangeN(ctx, key, t.begin, t.last, 1).Result()
	if err != nil {
		return err
	}
	if t.last = t.begin; len(found) == 0 {
		t.last = beginning
		for _, p := range t.all() {
			p.from, p.known = 0, true
		}
	}
	return nil
}

// setStarts sets the time from which on each pattern gets messages.
func (t *patternReader) setStarts(all []*patternFeed) error {
	if !slices.ContainsFunc(all, func(p *patternFeed) bool { return !p.known }) {
		return nil
	}
	ctx, cancel := t.Within(0)
	defer cancel()
	now, at, err := brokerTime(ctx, t.client)
	if err != nil {
		return err
	}
	first := uint64(math.MaxUint64)
	for _, p := range all {
		if !p.known {
			p.from, p.known = uint64(max(now.Add(p.since.Sub(at)).UnixMilli(), 1)), true
		}
		first = min(first, p.from)
	}
	if t.last == "" {
		t.begin = idBefore(first, 0)
		t.last = t.begin
	}
	return nil
}

// brokerTime returns the broker's time, and our time then, or a little later.
func brokerTime(ctx context.Context, client *goredis.Client) (now, at time.Time, err error) {
	now, err = client.Time(ctx).Result()
	return now, time.Now(), err
}

// brokerMillis returns the broker's time as in the ID of an entry.
func brokerMillis(ctx context.Context, client *goredis.Client) (ms uint64, err error) {
	now, _, err := brokerTime(ctx, client)
	return uint64(max(now.UnixMilli(), 0)), err
}

// poll is like poll of a reader. A pattern whose subscribers have no room delays the others only
// when many messages wait for it.
func (t *patternReader) poll(all []*patternFeed, block time.Duration) (more bool, err error) {
	if err := t.setStarts(all); err != nil {
		return false, err
	}
	waiting, full := t.offer(all)
	if full {
		time.Sleep(engine.RetryAfter)
		return true, nil
	}
	if waiting {
		block = -1
		defer time.Sleep(engine.RetryAfter)
	}
	ctx, cancel := t.Within(max(block, 0))
	defer cancel()
	got, err := t.client.XRead(ctx, &goredis.XReadArgs{
		Streams: []string{t.prefix + allKey, t.last}, Count: perPatternRead, Block: block,
	}).Result()
	if err != nil && err != goredis.Nil {
		return false, err
	}
	if t.opened.Load() > 1 {
		return false, errReplaced
	}
	if err != nil || len(got) == 0 { // nothing came
		t.catchingUp = false
		if waiting {
			return true, nil
		}
		return false, t.recreate()
	}
	all = t.all() // with patterns that were selected meanwhile
	if err := t.setStarts(all); err != nil {
		return false, err
	}
	for _, x := range got[0].Messages {
		t.last = x.ID
		t.pass(x, all)
	}
	full = len(got[0].Messages) == perPatternRead
	t.catchingUp = t.catchingUp && full
	waiting, _ = t.offer(all)
	return waiting || full && isOlder(t.last, t.begun), nil
}

// pass gives an entry to the patterns that match.
func (t *patternReader) pass(x goredis.XMessage, all []*patternFeed) {
	e, topic, err := parseAny(x)
	if err != nil || e.origin == t.Hub.Origin() {
		return
	}
	ms, _ := position(x.ID)
	key := e.origin + " " + topic // one string for all patterns
	for _, p := range all {
		if ms < p.from || !p.Matches(topic) {
			continue
		}
		fresh, lost := p.seen.Fresh(key, e.number, e.Count)
		if !fresh {
			continue
		}
		if lost > 0 {
			p.fresh = append(p.fresh, p.backlog.Lost(lost))
		}
		p.fresh = append(p.fresh, &pubsub.Message{ID: e.ID, Topic: topic, Time: e.Time,
			Keep: e.Keep, Data: e.Data})
		p.late = p.late || e.late || t.catchingUp
	}
}

var errNoTopic = errors.New("an entry without a topic")

// parseAny reads an entry of the stream of all topics.
func parseAny(x goredis.XMessage) (e entry, topic string, err error) {
	topic, ok := x.Values[fieldTopic].(string)
	if !ok {
		return entry{}, "", errNoTopic
	}
	e, err = parseEntry(x)
	return e, topic, err
}

// offer gives the read messages to the feeds of the patterns. It reports whether some messages have
// no room, and whether one pattern has so many of them that the stream is not to be read now.
func (t *patternReader) offer(all []*patternFeed) (waiting, full bool) {
	for _, p := range all {
		p.mu.Lock()
		p.backlog.Retry()
		p.backlog.Add(p.fresh, p.late)
		p.mu.Unlock()
		p.fresh, p.late = nil, false
		n, bytes := p.backlog.Waiting()
		waiting = waiting || n > 0
		full = full || n >= maxWait || bytes >= t.Hub.Limits.TopicBytes
	}
	return waiting, full
}
