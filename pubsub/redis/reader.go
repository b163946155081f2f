package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
)

const (
	perStream  = 64   // entries that one read takes of a stream
	perCommand = 32   // streams that are asked at once for what they have, not for what is new
	maxOrigins = 1024 // remembered for a topic
	beginning  = "0-0"
)

// feed is a topic that is followed, from one Follow to one Unfollow. Its fields are the reader's.
type feed struct {
	topic  string
	key    string
	since  time.Time         // it is followed
	last   string            // entry that was read last; empty: history is still to be read
	given  bool              // the hub does not wait for history any more
	broken bool              // the key is something else than a stream
	seen   map[string]uint64 // number of the last message, by origin
}

// feeds is what is followed.
type feeds struct {
	changed chan struct{} // has one when a topic was added

	mu      sync.Mutex
	byTopic map[string]*feed
}

func (f *feeds) init() {
	f.changed = make(chan struct{}, 1)
	f.byTopic = make(map[string]*feed)
}

// Follow implements pubsub.Engine.
func (e *Engine) Follow(topic string) {
	f := &e.feeds
	f.mu.Lock()
	f.byTopic[topic] = &feed{topic: topic, key: streamPrefix + topic, since: time.Now(), seen: make(map[string]uint64)}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
	e.queue.wakeReader()
}

// Unfollow implements pubsub.Engine. Until the next read begins, the topic is still read.
func (e *Engine) Unfollow(topic string) {
	e.feeds.mu.Lock()
	defer e.feeds.mu.Unlock()
	delete(e.feeds.byTopic, topic)
}

func (f *feeds) all() []*feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*feed, 0, len(f.byTopic))
	for _, fd := range f.byTopic {
		all = append(all, fd)
	}
	return all
}

func (f *feeds) has(fd *feed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byTopic[fd.topic] == fd
}

// readAll reads, with connections that come and go, until the engine is closed.
func (e *Engine) readAll() {
	var b backoff
	for {
		err := e.session(&b)
		if e.ctx.Err() != nil {
			return
		}
		e.report(reading, err)
		wait := time.After(b.next())
		for waiting := true; waiting; {
			for _, fd := range e.feeds.all() { // nobody is to wait for history as long as that
				if fd.last == "" {
					e.release(fd)
				}
			}
			select {
			case <-wait:
				waiting = false
			case <-e.feeds.changed:
			case <-e.ctx.Done():
				return
			}
		}
	}
}

// session catches up with what was missed and then reads what comes, until there is an error.
func (e *Engine) session(b *backoff) error {
	if err := e.verify(); err != nil {
		return err
	}
	wake, caughtUp := beginning, false
	for {
		select {
		case <-e.feeds.changed:
		default:
		}
		all := e.feeds.all()
		if err := e.load(all); err != nil {
			return err
		}
		if !caughtUp {
			for part := range slices.Chunk(all, perCommand) {
				for more := true; more; {
					var err error
					if more, err = e.poll(part, nil, -1); err != nil {
						return err
					}
				}
			}
			caughtUp = true
			b.wait = 0
			e.report(reading, nil)
		}
		if _, err := e.poll(all, &wake, heartbeat); err != nil {
			return err
		}
	}
}

// verify looks whether the entries that were read last are still there. One that is not was trimmed away with others
// that were not read, or the broker has lost it, and the numbers of its entries may have begun anew: then the stream is
// read from its beginning, and seen tells what is new.
func (e *Engine) verify() error {
	known := slices.DeleteFunc(e.feeds.all(), func(fd *feed) bool { return fd.last == "" || fd.last == beginning })
	return e.ask(known, func(ctx context.Context, p goredis.Pipeliner, fd *feed) *goredis.XMessageSliceCmd {
		return p.XRange(ctx, fd.key, fd.last, fd.last)
	}, func(fd *feed, found []goredis.XMessage) {
		if len(found) == 0 {
			e.log.Info("the broker does not have the last message of a topic any more; some may be missing", "topic", fd.topic)
			fd.last = beginning
		}
	})
}

// load gives the hub the history of the topics that have it still to come, and what was published since they are
// followed: where that is more than a history, all that there is.
func (e *Engine) load(all []*feed) error {
	history := max(e.hub.Limits.History, 1)
	for count := history; ; count = history + 2*maxLength { // more than there can be
		fresh := slices.DeleteFunc(slices.Clone(all), func(fd *feed) bool { return fd.last != "" || fd.broken })
		if len(fresh) == 0 {
			return nil
		}
		err := e.ask(fresh, func(ctx context.Context, p goredis.Pipeliner, fd *feed) *goredis.XMessageSliceCmd {
			return p.XRevRangeN(ctx, fd.key, "+", "-", int64(count))
		}, func(fd *feed, found []goredis.XMessage) {
			if count == history && len(found) == history {
				if m, err := parse(found[history-1]); err != nil || m.Time.After(fd.since) {
					return
				}
			}
			if fd.last = beginning; len(found) > 0 {
				fd.last = found[0].ID
			}
			slices.Reverse(found)
			fd.given = true
			e.hub.Loaded(fd.topic, fd.fresh(found, ""))
		})
		if err != nil {
			return err
		}
	}
}

// ask makes one command for each feed, and has answer look at what comes. A key that is something else than a stream is
// left out until the next session: a read of many streams would fail for its sake.
func (e *Engine) ask(fds []*feed, command func(context.Context, goredis.Pipeliner, *feed) *goredis.XMessageSliceCmd,
	answer func(*feed, []goredis.XMessage)) error {
	for part := range slices.Chunk(fds, perCommand) {
		ctx, cancel := e.within(0)
		p := e.client.Pipeline()
		asked := make([]*goredis.XMessageSliceCmd, len(part))
		for i, fd := range part {
			asked[i] = command(ctx, p, fd)
		}
		_, _ = p.Exec(ctx) // each command has its own error
		cancel()
		for i, fd := range part {
			found, err := asked[i].Result()
			fd.broken = goredis.HasErrorPrefix(err, "WRONGTYPE")
			switch {
			case err == nil:
				answer(fd, found)
			case fd.broken:
				e.log.Error("a topic's key in the broker is something else", "key", fd.key)
				e.release(fd)
			default:
				return err
			}
		}
	}
	return nil
}

// release has nobody wait for history any more that cannot be read.
func (e *Engine) release(fd *feed) {
	if !fd.given {
		fd.given = true
		e.hub.Loaded(fd.topic, nil)
	}
}

// poll reads what has come behind the last entries, and waits for block until something has; negative: not at all. The
// entries of wake, if it is given, are read too, and mean nothing. more reports that there may be more at once.
func (e *Engine) poll(fds []*feed, wake *string, block time.Duration) (more bool, err error) {
	var keys, positions []string
	byKey := make(map[string]*feed, len(fds))
	for _, fd := range fds {
		if !fd.broken {
			keys, positions = append(keys, fd.key), append(positions, fd.last)
			byKey[fd.key] = fd
		}
	}
	if wake != nil {
		keys, positions = append(keys, e.wakeup), append(positions, *wake)
	}
	if len(keys) == 0 {
		return false, nil
	}
	ctx, cancel := e.within(max(block, 0))
	defer cancel()
	got, err := e.client.XRead(ctx, &goredis.XReadArgs{Streams: append(keys, positions...), Count: perStream, Block: block}).Result()
	if err == goredis.Nil { // nothing came
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, stream := range got {
		if len(stream.Messages) == 0 {
			continue
		}
		last := stream.Messages[len(stream.Messages)-1].ID
		fd := byKey[stream.Stream]
		if fd == nil {
			*wake = last
			continue
		}
		fd.last, more = last, true
		if ms := fd.fresh(stream.Messages, e.hub.Origin()); len(ms) > 0 && e.feeds.has(fd) {
			e.hub.Deliver(fd.topic, ms)
		}
	}
	return more, nil
}

// fresh returns the messages that were not read before, but those of one origin.
func (fd *feed) fresh(found []goredis.XMessage, but string) []*pubsub.Message {
	var ms []*pubsub.Message
	for _, x := range found {
		m, err := parse(x)
		if err != nil || m.origin == but || m.seq <= fd.seen[m.origin] {
			continue // what is no message of ours is nobody's
		}
		if len(fd.seen) == maxOrigins { // each start of a process is one
			clear(fd.seen)
		}
		fd.seen[m.origin] = m.seq
		ms = append(ms, m.Message)
	}
	return ms
}
