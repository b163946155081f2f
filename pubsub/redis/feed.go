package redis

import (
	"context"
	"slices"
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

// feed is a topic that is followed, from one Follow to one Unfollow. What changes in it
// is its reader's.
type feed struct {
	topic  string
	key    string
	reader *reader
	since  time.Time // it is followed

	last   string            // entry that was read last; empty: history is still to be read
	given  bool              // the hub does not wait for history any more
	broken bool              // the key is something else than a stream
	seen   map[string]uint64 // number of the last message, by origin
}

// verify looks whether the entries that were read last are still there. One that is not was trimmed away with others
// that were not read, or the broker has lost it, and the numbers of its entries may have begun anew: then the stream is
// read from its beginning, and seen tells what is new.
func (r *reader) verify() error {
	for _, fd := range r.all() {
		fd.broken = false // to be tried again
	}
	known := slices.DeleteFunc(r.all(), func(fd *feed) bool { return fd.last == "" || fd.last == beginning })
	return r.ask(known, func(ctx context.Context, p goredis.Pipeliner, fd *feed) *goredis.XMessageSliceCmd {
		return p.XRange(ctx, fd.key, fd.last, fd.last)
	}, func(fd *feed, found []goredis.XMessage) {
		if len(found) == 0 {
			r.log.Info("the broker does not have the last message of a topic any more; some may be missing", "topic", fd.topic)
			fd.last = beginning
		}
	})
}

// load gives the hub the history of the topics that have it still to come, and what was published since they are
// followed: where that is more than a history, all that there is.
func (r *reader) load(all []*feed) error {
	history := max(r.hub.Limits.History, 1)
	for count := history; ; count = history + 2*maxLength { // more than there can be
		fresh := slices.DeleteFunc(slices.Clone(all), func(fd *feed) bool { return fd.last != "" || fd.broken })
		if len(fresh) == 0 {
			return nil
		}
		err := r.ask(fresh, func(ctx context.Context, p goredis.Pipeliner, fd *feed) *goredis.XMessageSliceCmd {
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
			r.hub.Loaded(fd.topic, fd.fresh(found, ""))
		})
		if err != nil {
			return err
		}
	}
}

// ask makes one command for each feed, and has answer look at what comes. A key that is something else than a stream is
// left out until the next session: a read of many streams would fail for its sake.
func (r *reader) ask(fds []*feed, command func(context.Context, goredis.Pipeliner, *feed) *goredis.XMessageSliceCmd,
	answer func(*feed, []goredis.XMessage)) error {
	for part := range slices.Chunk(fds, perCommand) {
		ctx, cancel := r.within(0)
		p := r.client.Pipeline()
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
				r.log.Error("a topic's key in the broker is something else", "key", fd.key)
				r.release(fd)
			default:
				return err
			}
		}
	}
	return nil
}

// release has nobody wait for history any more that cannot be read.
func (r *reader) release(fd *feed) {
	if !fd.given {
		fd.given = true
		r.hub.Loaded(fd.topic, nil)
	}
}

// poll reads what has come behind the last entries, and waits for block until something has; negative: not at all. The
// entries of wake, if it is given, are read too, and mean nothing. more reports that there may be more at once.
func (r *reader) poll(fds []*feed, wake *string, block time.Duration) (more bool, err error) {
	var keys, positions []string
	byKey := make(map[string]*feed, len(fds))
	for _, fd := range fds {
		if !fd.broken {
			keys, positions = append(keys, fd.key), append(positions, fd.last)
			byKey[fd.key] = fd
		}
	}
	if wake != nil {
		keys, positions = append(keys, r.wakeup), append(positions, *wake)
	}
	if len(keys) == 0 {
		return false, nil
	}
	ctx, cancel := r.within(max(block, 0))
	defer cancel()
	got, err := r.client.XRead(ctx, &goredis.XReadArgs{Streams: append(keys, positions...), Count: perStream, Block: block}).Result()
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
		if ms := fd.fresh(stream.Messages, r.hub.Origin()); len(ms) > 0 && r.has(fd) {
			r.hub.Deliver(fd.topic, ms)
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
