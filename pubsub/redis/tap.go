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
	perTap    = 128              // entries that one read takes of all topics
	maxWait   = 1 << 10          // messages of a pattern that wait before no more is read
	keepEvery = 10 * time.Minute // how often the stream of all topics is said to be needed
)

// tap reads the stream of all topics of a shard, for the patterns of this process. Processes append
// to that stream while it is there, and one that follows a pattern creates it.
type tap struct {
	*shard
	client *goredis.Client
	opened *atomic.Int32
	begun  uint64 // when the session began: milliseconds of the broker's clock

	begin string    // where it was first read from
	last  string    // entry that was read last
	kept  time.Time // when the broker was last told that the stream is needed

	behind bool // since an outage it was not read to its end yet

	patterns map[*choice]*tapped // under the shard's lock
}

// tapped is a pattern of a tap.
type tapped struct {
	*choice
	from    uint64            // milliseconds of the broker's clock: what is older is not for it
	known   bool              // from is
	fresh   []*pubsub.Message // read, and not given yet
	late    bool              // some of that is
	backlog engine.Backlog
	seen    engine.Recent // by origin and topic: numbers of an origin rise in each, and not beyond
}

// follows has the shard's topics read for a pattern.
func (s *shard) follows(c *choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.tap == nil {
		s.tap = &tap{shard: s, patterns: make(map[*choice]*tapped)}
		s.ended.Go(s.tap.run)
	}
	s.tap.patterns[c] = &tapped{choice: c, backlog: s.Backlog(c.Name, c.to)}
}

// forget undoes follows.
func (s *shard) forget(c *choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tap != nil {
		delete(s.tap.patterns, c)
	}
}

// all returns the patterns. If there are none, the tap is none of the shard's any more.
func (t *tap) all() []*tapped {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.patterns) == 0 && t.tap == t {
		t.tap = nil
	}
	return slices.Collect(maps.Values(t.patterns))
}

func (t *tap) run() {
	defer t.Report(t, nil) // what is not read any more is not cut off
	var b engine.Backoff
	for {
		err := t.session(&b)
		if err == nil || t.Context.Err() != nil {
			return
		}
		t.Report(t, err)
		if engine.Offering(t.Context, b.Next(), func() bool {
			waiting, _ := t.offer(t.all())
			return waiting
		}) != nil || len(t.all()) == 0 {
			return
		}
	}
}

// session reads until there is an error, or no pattern any more.
func (t *tap) session(b *engine.Backoff) (err error) {
	opened := new(atomic.Int32)
	client, disconnect, err := t.connect(func() { opened.Add(1) })
	if err != nil {
		return err
	}
	defer disconnect()
	t.client, t.opened, t.kept, t.behind = client, opened, time.Time{}, true
	ctx, cancel := t.Within(0)
	t.begun, err = began(ctx, client)
	cancel()
	if err != nil {
		return err
	}
	for caughtUp := false; ; {
		if time.Since(t.kept) > keepEvery {
			if err := t.keep(t.client); err != nil {
				return err
			}
			if t.kept.IsZero() && t.last != "" {
				if err := t.verify(); err != nil {
					return err
				}
			}
			t.kept = time.Now()
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

// recreate creates the stream of all topics again if it has gone: nobody appends to it then.
func (t *tap) recreate() error {
	ctx, cancel := t.Within(0)
	defer cancel()
	n, err := t.client.XLen(ctx, t.prefix+allKey).Result()
	if err == nil && n == 0 {
		t.kept = time.Time{}
	}
	return err
}

// keep creates the stream of all topics of the shard, unless it is there, and has it kept for as
// long as a topic.
func (s *shard) keep(client *goredis.Client) error {
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

// verify looks whether the entry that was read last is still there. If not, as with a topic, the
// stream is read again from where it was first read, or it is another one, of which all is news.
func (t *tap) verify() error {
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

// date sets from which entry on the patterns get messages.
func (t *tap) date(all []*tapped) error {
	if !slices.ContainsFunc(all, func(p *tapped) bool { return !p.known }) {
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
		t.begin = before(first, 0)
		t.last = t.begin
	}
	return nil
}

// brokerTime returns the broker's time, and ours at that, or a little later.
func brokerTime(ctx context.Context, client *goredis.Client) (now, at time.Time, err error) {
	now, err = client.Time(ctx).Result()
	return now, time.Now(), err
}

// began returns the broker's time as it is in the ID of an entry.
func began(ctx context.Context, client *goredis.Client) (ms uint64, err error) {
	now, _, err := brokerTime(ctx, client)
	return uint64(max(now.UnixMilli(), 0)), err
}

// poll is like that of a reader. A pattern whose subscribers have no room holds up the others only
// when much waits for it.
func (t *tap) poll(all []*tapped, block time.Duration) (more bool, err error) {
	if err := t.date(all); err != nil {
		return false, err
	}
	waiting, full := t.offer(all)
	if full {
		time.Sleep(engine.Soon)
		return true, nil
	}
	if waiting {
		block = -1
		defer time.Sleep(engine.Soon)
	}
	ctx, cancel := t.Within(max(block, 0))
	defer cancel()
	got, err := t.client.XRead(ctx, &goredis.XReadArgs{
		Streams: []string{t.prefix + allKey, t.last}, Count: perTap, Block: block,
	}).Result()
	if err != nil && err != goredis.Nil {
		return false, err
	}
	if t.opened.Load() > 1 {
		return false, errReplaced
	}
	if err != nil || len(got) == 0 { // nothing came
		t.behind = false
		if waiting {
			return true, nil
		}
		return false, t.recreate()
	}
	all = t.all() // one that came meanwhile may be meant
	if err := t.date(all); err != nil {
		return false, err
	}
	for _, x := range got[0].Messages {
		t.last = x.ID
		t.pass(x, all)
	}
	full = len(got[0].Messages) == perTap
	t.behind = t.behind && full
	waiting, _ = t.offer(all)
	return waiting || full && older(t.last, t.begun), nil
}

// pass gives an entry to the patterns that match.
func (t *tap) pass(x goredis.XMessage, all []*tapped) {
	e, topic, err := parseAny(x)
	if err != nil || e.origin == t.Hub.Origin() {
		return
	}
	ms, _ := position(x.ID)
	key := e.origin + " " + topic // one string for all that remember it
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
		p.late = p.late || e.late || t.behind
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

// offer gives patterns what was read. It reports whether there is something that has no room, and
// whether so much of one pattern has none that no more is to be read.
func (t *tap) offer(all []*tapped) (waiting, full bool) {
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
