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
)

const (
	perStream  = 16   // entries that one read takes of a stream
	perPage    = 32   // of its history
	perCommand = 8    // streams that are asked at once for what they have, not for what is new
	maxOrigins = 1024 // remembered for a topic
	beginning  = "0-0"
)

// feed is a topic that is followed, from one Follow to one Unfollow. What changes in it is its reader's.
type feed struct {
	topic  string
	key    string
	reader *reader
	to     *pubsub.Feed
	since  time.Time // it is followed

	pending []*pubsub.Message // of ours, which the broker did not have then; to be told with the history

	last   string            // entry that was read last; empty: history is still to be read
	brief  bool              // the broker forgets the stream when that has no news for a while
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
			if !fd.brief {
				r.log.Info("the broker does not have the last message of a topic any more; some may be missing", "topic", fd.topic)
			}
			fd.last = beginning
		}
	})
}

// load gives the hub the history of the topics that have it still to come. What was published since they are followed is
// left to be read as news. Which is which the order of the stream says: the broker puts its time into the IDs, and is
// asked for the time, so its clock is compared with itself, whatever the others show.
func (r *reader) load(all []*feed) error {
	fresh := slices.DeleteFunc(slices.Clone(all), func(fd *feed) bool { return fd.last != "" || fd.broken })
	if len(fresh) == 0 {
		return nil
	}
	ctx, cancel := r.within(0)
	defer cancel()
	now, err := r.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	at := time.Now() // a little later than now, so that rather history is taken for news than news for history
	pages := make(map[*feed]*page)
	for _, fd := range fresh {
		pages[fd] = &page{from: uint64(max(now.Add(fd.since.Sub(at)).UnixMilli(), 1)), end: "+"}
	}
	for len(fresh) > 0 {
		var unfinished []*feed
		err := r.ask(fresh, func(ctx context.Context, p goredis.Pipeliner, fd *feed) *goredis.XMessageSliceCmd {
			return p.XRevRangeN(ctx, fd.key, pages[fd].end, "-", perPage)
		}, func(fd *feed, found []goredis.XMessage) {
			pg := pages[fd]
			if pg.add(found, r.hub) {
				unfinished = append(unfinished, fd)
				return
			}
			slices.Reverse(pg.found)
			history := fd.fresh(pg.found, "")
			for _, m := range fd.pending {
				if !slices.ContainsFunc(history, func(o *pubsub.Message) bool { return o.ID == m.ID }) {
					history = append(history, m)
				}
			}
			fd.to.Loaded(history)
			fd.last, fd.pending = cmp.Or(pg.last, beginning), nil
		})
		if err != nil {
			return err
		}
		fresh = unfinished
	}
	return nil
}

// page is how far the history of a topic has been read, from its end.
type page struct {
	from  uint64             // milliseconds since 1970, by the broker's clock, when the topic was followed
	end   string             // the next page ends with it
	found []goredis.XMessage // the last one first
	bytes int
	last  string // entry before which everything is history
}

// add takes the next page, and reports whether there is another to be read: history is read as far as the hub keeps it.
func (pg *page) add(found []goredis.XMessage, hub *pubsub.Hub) (more bool) {
	for _, x := range found {
		ms, seq := position(x.ID)
		pg.end = before(ms, seq)
		if ms < pg.from {
			pg.last = cmp.Or(pg.last, x.ID)
		} else if id, _ := x.Values[fieldID].(string); !strings.HasPrefix(id, hub.Origin()+"-") {
			continue // to be read again, as news; ours the hub knows, or it was published just before
		}
		pg.found = append(pg.found, x)
		data, _ := x.Values[fieldData].(string)
		pg.bytes += len(data)
	}
	switch {
	case len(found) < perPage:
		return false
	case pg.last == "": // all of it is news, of which there may be much
		pg.end = before(pg.from, 0)
		return true
	}
	return len(pg.found) < max(hub.Limits.History, 1) && pg.bytes < hub.Limits.TopicBytes
}

// position takes the ID of an entry apart.
func position(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}

// before returns the greatest ID below one that is not 0-0.
func before(ms, seq uint64) string {
	if seq == 0 {
		return fmt.Sprint(ms-1, "-", uint64(math.MaxUint64))
	}
	return fmt.Sprint(ms, "-", seq-1)
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
		_, _ = exec(ctx, p) // each command has its own error
		cancel()
		for i, fd := range part {
			found, err := asked[i].Result()
			fd.broken = goredis.HasErrorPrefix(err, "WRONGTYPE")
			switch {
			case err == nil:
				answer(fd, found)
			case fd.broken:
				r.log.Error("a topic's key in the broker is something else", "key", fd.key)
				fd.to.Loaded(nil) // nobody is to wait for it
			default:
				return err
			}
		}
	}
	return nil
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
		if r.ctx.Err() != nil { // Deliver may take a while
			return false, r.ctx.Err()
		}
		last := stream.Messages[len(stream.Messages)-1].ID
		fd := byKey[stream.Stream]
		if fd == nil {
			*wake = last
			continue
		}
		fd.last, more = last, true
		if ms := fd.fresh(stream.Messages, r.hub.Origin()); len(ms) > 0 {
			fd.to.Deliver(ms)
		}
	}
	return more, nil
}

// fresh returns the messages that were not read before, but those of one origin.
func (fd *feed) fresh(found []goredis.XMessage, but string) []*pubsub.Message {
	var ms []*pubsub.Message
	for _, x := range found {
		m, err := parse(x)
		fd.brief = err == nil && m.Keep > 0
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
