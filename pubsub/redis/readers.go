package redis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
)

// perReader is how many topics one reader reads: a read costs the broker a little for each,
// whichever of them has something.
const perReader = 128

// reader is a goroutine that reads some of the topics, with a connection of its own.
type reader struct {
	*Engine
	wakeup string        // key of the stream that wakes it
	added  chan struct{} // has an element when there is another topic

	// Of the session, and the goroutine's.
	client *goredis.Client
	opened *atomic.Int32 // how many connections the client has opened

	feeds map[string]*feed // by topic, under the readers' lock
}

// readers are all goroutines that read. The first one stays, to notice when the broker is gone. The
// others return when they have nothing to read.
type readers struct {
	mu     sync.Mutex
	all    []*reader
	feeds  map[string]*feed // by topic
	number int              // of the last one that was started
	ended  sync.WaitGroup
	closed bool
}

// start starts another reader. The caller holds the readers' lock.
func (rs *readers) start(e *Engine) *reader {
	rs.number++
	r := &reader{Engine: e,
		wakeup: fmt.Sprint(wakePrefix, e.hub.Origin(), ":", rs.number),
		added:  make(chan struct{}, 1), feeds: make(map[string]*feed)}
	rs.all = append(rs.all, r)
	rs.ended.Go(r.run)
	return r
}

// Follow implements pubsub.Engine.
func (e *Engine) Follow(topic string, to *pubsub.Feed) {
	rs := &e.readers
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		go to.Loaded(nil) // no reader is left to call it
		return
	}
	var r *reader
	if i := slices.IndexFunc(rs.all, func(r *reader) bool {
		return len(r.feeds) < perReader
	}); i >= 0 {
		r = rs.all[i]
	} else {
		r = rs.start(e)
	}
	fd := &feed{topic: topic, key: streamPrefix + topic, to: to, reader: r, since: time.Now(),
		pending: e.queue.waiting(topic),
		seen:    make(map[string]uint64)}
	rs.feeds[topic], r.feeds[topic] = fd, fd
	select {
	case r.added <- struct{}{}:
	default:
	}
	e.queue.wake(r.wakeup)
}

// Unfollow implements pubsub.Engine. The topic is still read until the next read begins.
func (e *Engine) Unfollow(topic string) {
	rs := &e.readers
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if fd := rs.feeds[topic]; fd != nil {
		delete(rs.feeds, topic)
		delete(fd.reader.feeds, topic)
	}
}

// close waits for the readers, whose context has ended.
func (rs *readers) close() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.ended.Wait()
}

// all returns what the reader is to read.
func (r *reader) all() []*feed {
	r.readers.mu.Lock()
	defer r.readers.mu.Unlock()
	return slices.Collect(maps.Values(r.feeds))
}

// done reports whether there is nothing to read, and then takes the reader out.
func (r *reader) done() bool {
	rs := &r.readers
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(r.feeds) > 0 || r == rs.all[0] {
		return false
	}
	rs.all = slices.DeleteFunc(rs.all, func(o *reader) bool { return o == r })
	return true
}

// run reads, in sessions that come and go.
func (r *reader) run() {
	defer r.report(r, nil) // a reader that has returned is not cut off
	var b backoff
	for {
		err := r.session(&b)
		if err == nil || r.ctx.Err() != nil {
			return
		}
		r.report(r, err)
		wait := time.After(b.next())
		for waiting := true; waiting; {
			for _, fd := range r.all() { // subscribers shall not wait that long for history
				if fd.last == "" {
					fd.to.Loaded(nil)
				}
			}
			select {
			case <-wait:
				waiting = false
			case <-r.added:
			case <-r.ctx.Done():
				return
			}
		}
	}
}

// greet asks the broker for an answer. If no topic is followed, the session asks nothing else, and
// the lack of an error would mean nothing.
func (r *reader) greet() error {
	ctx, cancel := r.within(0)
	defer cancel()
	return r.client.Ping(ctx).Err()
}

// replaced returns an error if the connection is not the session's first one. The client
// opens another one, without an error, if it finds between two commands that the broker has closed
// it; and the broker may have forgotten meanwhile what was read.
func (r *reader) replaced() error {
	if r.opened.Load() > 1 {
		return errReplaced
	}
	return nil
}

var errReplaced = errors.New("the broker has closed the connection")

// session connects, catches up with what was missed, and then reads what comes, until there is an
// error, or nothing to read any more.
func (r *reader) session(b *backoff) error {
	opened := new(atomic.Int32)
	client, disconnect := r.connect(func() { opened.Add(1) })
	defer disconnect()
	r.client, r.opened = client, opened
	if err := r.greet(); err != nil {
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
		if !caughtUp {
			for more := true; more && r.ctx.Err() == nil; {
				more = false
				for part := range slices.Chunk(all, perCommand) {
					again, err := r.poll(part, nil, -1)
					if err != nil {
						return err
					}
					more = more || again
				}
			}
			caughtUp = true
			b.wait = 0
			r.report(r, nil)
		}
		if _, err := r.poll(all, &wake, heartbeat); err != nil {
			return err
		}
	}
	return nil
}
