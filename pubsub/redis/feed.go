package redis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	perStream  = 16 // entries that one read takes of a stream
	perPage    = 32 // entries that one read takes of its history
	perCommand = 8  // streams that are asked at once for what they have already
	beginning  = "0-0"
)

// feed is a topic that is followed, from one Follow to one Unfollow. Only its reader changes the
// fields below the first group.
type feed struct {
	topic  string
	key    string
	reader *reader
	to     *pubsub.Feed
	since  time.Time // when Follow was called

	pending []*pubsub.Message // our messages that the broker did not have then; part of the history

	last    string // entry that was read last; empty: history is still to be read
	history string // the last entry that was published before the topic was followed
	oldest  string // no later than the first entry of the history that was read

	catchingUp bool           // the stream was not read to its end since an outage, or the Follow
	backlog    engine.Backlog // while messages wait there, the stream is not read

	expires   bool // the last message has a Keep: the stream may have expired
	notStream bool // the key is not a stream
	seen      engine.Recent
}

// verify asks the broker for the entries that were read last. If one is missing, either the stream
// was trimmed, and other entries went unread, or the broker has lost entries and numbers new ones
// from an earlier point. Then the stream is read again from its history on, and seen tells which
// messages are new. seen does not know all messages of the history, because only the end of the
// history is read. If no entry of that end is left, the stream is another one, with its own
// numbers, and is read from its beginning. If a stream had no entries, verify only checks that its
// key is not of another type.
func (r *reader) verify() error {
	for _, fd := range r.all() {
		fd.notStream, fd.catchingUp = false, true // it is tried again
	}
	known := slices.DeleteFunc(r.all(), func(fd *feed) bool { return fd.last == "" })
	var gone []*feed
	err := r.ask(known, func(
		ctx context.Context, p goredis.Pipeliner, fd *feed,
	) *goredis.XMessageSliceCmd {
		return p.XRange(ctx, fd.key, fd.last, fd.last)
	}, func(fd *feed, found []goredis.XMessage) {
		if len(found) == 0 && fd.last != beginning {
			if !fd.expires {
				r.Log.Info("redis: the last message of a topic is gone, some may be missing",
					"topic", fd.topic)
			}
			gone = append(gone, fd)
		}
	})
	if err != nil {
		return err
	}
	return r.ask(gone, func(
		ctx context.Context, p goredis.Pipeliner, fd *feed,
	) *goredis.XMessageSliceCmd {
		return p.XRangeN(ctx, fd.key, fd.oldest, fd.history, 1)
	}, func(fd *feed, found []goredis.XMessage) {
		if fd.last = beginning; len(found) > 0 {
			fd.last = fd.history
		}
	})
}

// load gives the hub the history of the topics for which it has none yet. Messages that were
// published after the Follow are not history, and are read later. The IDs of the entries have the
// broker's time, and load asks the broker for its time now, so the broker's clock is compared only
// with itself.
func (r *reader) load(all []*feed) error {
	fresh := slices.DeleteFunc(slices.Clone(all), func(fd *feed) bool {
		return fd.last != "" || fd.notStream
	})
	if len(fresh) == 0 {
		return nil
	}
	ctx, cancel := r.Within(0)
	defer cancel()
	now, err := r.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	at := time.Now() // a little late: so an entry counts as published after the Follow if in doubt
	pages := make(map[*feed]*page)
	for _, fd := range fresh {
		pages[fd] = &page{from: uint64(max(now.Add(fd.since.Sub(at)).UnixMilli(), 1)), end: "+"}
	}
	for len(fresh) > 0 {
		var unfinished []*feed
		err := r.ask(fresh, func(
			ctx context.Context, p goredis.Pipeliner, fd *feed,
		) *goredis.XMessageSliceCmd {
			return p.XRevRangeN(ctx, fd.key, pages[fd].end, "-", perPage)
		}, func(fd *feed, found []goredis.XMessage) {
			pg := pages[fd]
			if pg.add(found, r.Hub, fd.to.Depth()) {
				unfinished = append(unfinished, fd)
				return
			}
			slices.Reverse(pg.found)
			history := fd.unseen(pg.found)
			for _, m := range fd.pending {
				if !slices.ContainsFunc(history, func(o *pubsub.Message) bool {
					return o.ID == m.ID
				}) {
					history = append(history, m)
				}
			}
			fd.to.Loaded(history)
			fd.history, fd.oldest = cmp.Or(pg.last, beginning), pg.end
			fd.last, fd.pending = fd.history, nil
		})
		if err != nil {
			return err
		}
		fresh = unfinished
	}
	return nil
}

// page is how far the history of a topic has been read, backwards from its end.
type page struct {
	from         uint64             // when it was followed: milliseconds since 1970 of the broker
	end          string             // the last entry of the next page: "+" before the first page
	found        []goredis.XMessage // the latest one first
	bytes        int
	historyCount int    // how many of found are older than from
	last         string // the latest entry that is history
}

// add takes the next page, and reports whether another one is to be read. History is read as far as
// the hub keeps it, and one entry more, from which the hub sees that there are more.
func (pg *page) add(found []goredis.XMessage, hub *pubsub.Hub, depth int) (more bool) {
	for _, x := range found {
		ms, seq := position(x.ID)
		pg.end = idBefore(ms, seq)
		if ms < pg.from {
			pg.last = cmp.Or(pg.last, x.ID)
			pg.historyCount++
		} else if id, _ := x.Values[fieldID].(string); !strings.HasPrefix(id, hub.Origin()+"-") {
			continue // it is read again, as news; ours are not, and the hub knows them
		}
		pg.found = append(pg.found, x)
		data, _ := x.Values[fieldData].(string)
		pg.bytes += len(data)
	}
	switch {
	case len(found) < perPage:
		return false
	case pg.last == "": // all of it is news, and there may be much
		pg.end = idBefore(pg.from, 0)
		return true
	}
	return pg.historyCount <= depth && pg.bytes <= hub.Limits.TopicBytes
}

// position splits the ID of an entry.
func position(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}

// isOlder reports whether there may be entries after one that are older than ms, milliseconds of
// the broker's clock. The broker never gives an ID below that of the entry before.
func isOlder(id string, ms uint64) bool {
	at, _ := position(id)
	return at < ms
}

// idBefore returns the greatest ID below one that is not 0-0.
func idBefore(ms, seq uint64) string {
	if seq == 0 {
		return fmt.Sprint(ms-1, "-", uint64(math.MaxUint64))
	}
	return fmt.Sprint(ms, "-", seq-1)
}

// ask sends one command for each feed, and calls answer with its result. If a key is not a stream,
// its feed is left out until the next session, because a read of several streams would fail.
func (r *reader) ask(
	fds []*feed,
	command func(context.Context, goredis.Pipeliner, *feed) *goredis.XMessageSliceCmd,
	answer func(*feed, []goredis.XMessage)) error {
	for part := range slices.Chunk(fds, perCommand) {
		ctx, cancel := r.Within(0)
		p := r.client.Pipeline()
		asked := make([]*goredis.XMessageSliceCmd, len(part))
		for i, fd := range part {
			asked[i] = command(ctx, p, fd)
		}
		_, _ = exec(ctx, p) // each command has its own error
		cancel()
		for i, fd := range part {
			found, err := asked[i].Result()
			fd.notStream = goredis.HasErrorPrefix(err, "WRONGTYPE")
			switch {
			case err == nil:
				answer(fd, found)
			case fd.notStream:
				r.Log.Error("redis: a topic's key in the broker is not a stream", "key", fd.key)
				fd.to.Loaded(nil) // subscribers must not wait for it
			default:
				return err
			}
		}
	}
	return nil
}

// poll reads the entries after the last ones. If there are none, it waits for block, or not at all
// if block is negative. If wake is given, it reads that stream as well, whose entries carry
// nothing. more reports whether there are more entries. Entries since the beginning of the session
// do not count: a topic that is busier than this process can read would always have more. poll does
// not read topics whose subscribers have no room for messages that were read before, so such a
// topic does not delay others.
func (r *reader) poll(fds []*feed, wake *string, block time.Duration) (more bool, err error) {
	var keys, positions []string
	byKey := make(map[string]*feed, len(fds))
	waiting := false
	for _, fd := range fds {
		if fd.backlog.Retry() {
			waiting = true
		} else if !fd.notStream {
			keys, positions = append(keys, fd.key), append(positions, fd.last)
			byKey[fd.key] = fd
		}
	}
	if wake != nil {
		keys, positions = append(keys, r.wakeup), append(positions, *wake)
	}
	if waiting { // a broker ends reads that have blocked long enough only ten times a second
		block = -1
		defer time.Sleep(engine.RetryAfter)
	}
	if len(keys) == 0 {
		return waiting, nil
	}
	ctx, cancel := r.Within(max(block, 0))
	defer cancel()
	got, err := r.client.XRead(ctx, &goredis.XReadArgs{
		Streams: append(keys, positions...), Count: perStream, Block: block,
	}).Result()
	if none := err == goredis.Nil; err == nil || none {
		if err = r.replaced(); err == nil && none {
			for _, fd := range byKey {
				fd.catchingUp = false
			}
			return waiting, nil
		}
	}
	if err != nil {
		return false, err
	}
	more = waiting
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
		fd.last = last
		fd.deliver(stream.Messages, r.Hub.Origin())
		if len(stream.Messages) == perStream {
			more = more || isOlder(last, r.begun)
			delete(byKey, fd.key)
		}
	}
	for _, fd := range byKey {
		fd.catchingUp = false
	}
	return more, nil
}

// unseen returns the messages of the history that were not read before.
func (fd *feed) unseen(found []goredis.XMessage) (ms []*pubsub.Message) {
	for _, x := range found {
		m, err := fd.parse(x)
		if err != nil {
			continue
		}
		if fresh, _ := fd.seen.Fresh(m.origin, m.number, m.Count); fresh {
			ms = append(ms, m.Message)
		}
	}
	return ms
}

// deliver gives subscribers messages that were not read before. They have the messages of their own
// process already.
func (fd *feed) deliver(found []goredis.XMessage, own string) {
	var ms []*pubsub.Message
	late := fd.catchingUp
	for _, x := range found {
		m, err := fd.parse(x)
		if err != nil || m.origin == own {
			continue
		}
		fresh, lost := fd.seen.Fresh(m.origin, m.number, m.Count)
		if !fresh {
			continue
		}
		if lost > 0 {
			ms = append(ms, fd.backlog.Lost(lost))
		}
		ms, late = append(ms, m.Message), late || m.late
	}
	fd.backlog.Add(ms, late)
}

// parse reads an entry, which need not be a message.
func (fd *feed) parse(x goredis.XMessage) (entry, error) {
	m, err := parseEntry(x)
	fd.expires = err == nil && m.Keep > 0
	return m, err
}
