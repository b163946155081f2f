package redis

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// perReader is how many topics one reader reads: a read costs the broker a little for each, also
// for those without new entries.
const perReader = 128

// reader is a goroutine that reads some of a shard's topics, with a connection of its own.
type reader struct {
	*shard
	presence bool          // it reads PresenceTopic alone, see start
	wakeup   string        // key of the stream that wakes it
	added    chan struct{} // has an element when there is another topic

	// Of the session, and the goroutine's.
	client *goredis.Client
	opened *atomic.Int32 // how many connections the client has opened
	begun  uint64        // when it began: milliseconds of the broker's clock

	feeds map[string]*feed // by topic, under the shard's lock
}

// all returns the topics that the reader reads.
func (r *reader) all() []*feed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.feeds))
}

// done reports whether the reader has no topics, and then removes the reader.
func (r *reader) done() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.feeds) > 0 || r == r.readers[0] {
		return false
	}
	r.readers = slices.DeleteFunc(r.readers, func(o *reader) bool { return o == r })
	return true
}

// run reads, in sessions that come and go.
func (r *reader) run() {
	defer r.Report(r, nil) // a reader that has returned does not miss the broker
	var b engine.Backoff
	for {
		err := r.session(&b)
		if err == nil || r.Context.Err() != nil {
			return
		}
		r.Report(r, err)
		wait := time.After(b.Next())
		for waiting := true; waiting; {
			var again <-chan time.Time
			for _, fd := range r.all() { // subscribers must not wait that long for history
				if fd.last == "" {
					fd.to.Loaded(nil)
				}
				if fd.backlog.Retry() && again == nil {
					again = time.After(engine.RetryAfter)
				}
			}
			select {
			case <-wait:
				waiting = false
			case <-again:
			case <-r.added:
			case <-r.Context.Done():
				return
			}
		}
	}
}

// ping sends PING, and asks the broker for its time. If no topic is followed, the session sends no
// other command that would find an error. A broker that is still loading answers TIME, but not
// PING.
func (r *reader) ping() error {
	ctx, cancel := r.Within(0)
	defer cancel()
	err := r.client.Ping(ctx).Err()
	if err == nil {
		r.begun, err = brokerMillis(ctx, r.client)
	}
	return err
}

// replaced returns an error if the connection is not the session's first one. If the broker has
// closed the connection between two commands, the client opens another one, without an error; and
// the broker may have lost entries meanwhile.
func (r *reader) replaced() error {
	if r.opened.Load() > 1 {
		return errReplaced
	}
	return nil
}

var errReplaced = errors.New("the broker has closed the connection")

// session connects, reads the entries that were missed, and then new ones, until there is an error,
// or the reader has no topics any more.
func (r *reader) session(b *engine.Backoff) error {
	opened := new(atomic.Int32)
	client, disconnect, err := r.connect(func() { opened.Add(1) })
	if err != nil {
		return err
	}
	defer disconnect()
	r.client, r.opened = client, opened
	if err := r.ping(); err != nil {
		return err
	}
	if err := r.verify(); err != nil {
		return err
	}
	wake, caughtUp := beginning, false
	for !r.done() {
		select {
		case <-r.added:
		default:
		}
		all := r.all()
		if err := r.load(all); err != nil {
			return err
		}
		if !caughtUp { // topics may come meanwhile
			more := false
			for part := range slices.Chunk(all, perCommand) {
				again, err := r.poll(part, nil, -1)
				if err != nil {
					return err
				}
				more = more || again
			}
			if err := r.Context.Err(); err != nil {
				return err
			}
			if more {
				continue
			}
			caughtUp = true
			b.Reset()
			r.Report(r, nil)
		}
		if _, err := r.poll(all, &wake, heartbeat); err != nil {
			return err
		}
	}
	return nil
}
