package redis

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// shard is a set of topics whose streams are on one server; without a cluster, all topics. A
// cluster refuses a read, or a transaction, of streams in different slots, so there a shard has the
// topics of one slot. Each shard has its own outbox and readers: when a node is gone, the topics of
// other nodes go on. A shard does nothing before its first topic.
type shard struct {
	*engine.Base
	engine *Engine
	prefix string // of its keys
	out    *engine.Outbox

	// Of the outbox's goroutine.
	client     *goredis.Client // nil: to be connected
	opened     *atomic.Int32   // how many connections the client has opened
	disconnect func()
	allExists  bool       // the stream of all topics existed when a batch was last sent
	allFoundOn connection // on which it was last found

	mu            sync.Mutex
	wakeups       []string  // keys of the readers to wake
	readers       []*reader // The first one stays; the others return when they have nothing to read.
	feeds         map[string]*feed
	number        int            // of the reader that was started last
	patternReader *patternReader // nil: no pattern is followed
	ended         sync.WaitGroup
	closed        bool
}

// tags are the names of the shards of a cluster, in braces in their keys. The i-th has a slot
// between 256 i and 256 i + 255, so the shards are as evenly spread over the nodes as the slots.
// All processes have the same ones.
var tags = [...]int{
	10, 18, 113, 342, 29, 21, 3, 122, 69, 61, 72, 162, 50, 58, 153, 43,
	11, 19, 112, 343, 28, 20, 2, 123, 68, 60, 73, 163, 51, 59, 152, 42,
	12, 102, 111, 119, 133, 23, 1, 9, 173, 63, 70, 78, 52, 142, 49, 41,
	13, 103, 110, 118, 132, 22, 0, 8, 172, 62, 71, 79, 53, 143, 48, 40,
}

func newShard(e *Engine, prefix string) *shard {
	s := &shard{Base: e.base, engine: e, prefix: prefix, feeds: make(map[string]*feed)}
	s.out = s.Outbox(maxBatch, s.send, s.drop)
	return s
}

// shard returns the shard of a topic. All processes choose the same one.
func (e *Engine) shard(topic string) *shard {
	if len(e.shards) == 1 {
		return e.shards[0]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(topic))
	return e.shards[h.Sum32()%uint32(len(e.shards))]
}

// connect makes a client with one connection to the server of the shard, which opens when it is
// first used, and again after it has broken. Each time opened is called. disconnect closes the
// client, and so does the end of the engine's context: a command that waits fails then.
//
// The client keeps its connection while the broker answers, even if it only answers with errors.
// The address may belong to another server meanwhile, as after a fail-over whose former primary
// runs on and refuses to write. So a goroutine takes another client after an attempt that has
// failed.
func (s *shard) connect(opened func()) (client *goredis.Client, disconnect func(), err error) {
	ctx, cancel := s.Within(0)
	defer cancel()
	o := s.engine.target.options
	if o.Addr, err = s.engine.finder.find(ctx, s.prefix); err != nil {
		return nil, nil, err
	}
	o.OnConnect = func(context.Context, *goredis.Conn) error { opened(); return nil }
	client = goredis.NewClient(&o)
	stop := context.AfterFunc(s.Context, func() { client.Close() })
	return client, func() {
		stop()
		client.Close()
	}, nil
}

// start starts another reader. Presence has one of its own: a read names all topics of the reader
// anew, which would be most of what a join costs. The caller holds the shard's lock.
func (s *shard) start(presence bool) *reader {
	s.number++
	r := &reader{shard: s, presence: presence,
		wakeup: fmt.Sprint(s.prefix, wakeKeys, s.Hub.Origin(), ":", s.number),
		added:  make(chan struct{}, 1), feeds: make(map[string]*feed)}
	s.readers = append(s.readers, r)
	s.ended.Go(r.run)
	return r
}

// follow is Engine.Follow for a topic of the shard.
func (s *shard) follow(topic string, to *pubsub.Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go to.Loaded(nil) // no reader is left to call it
		return
	}
	var r *reader
	presence := topic == pubsub.PresenceTopic
	if i := slices.IndexFunc(s.readers, func(r *reader) bool {
		return r.presence == presence && len(r.feeds) < perReader
	}); i >= 0 {
		r = s.readers[i]
	} else {
		r = s.start(presence)
	}
	fd := &feed{topic: topic, key: s.prefix + topicKeys + topic, to: to, reader: r,
		since: time.Now(), pending: s.out.Waiting(topic), catchingUp: true,
		backlog: s.Backlog(topic, to)}
	s.feeds[topic], r.feeds[topic] = fd, fd
	select {
	case r.added <- struct{}{}:
	default:
	}
	s.wake(r.wakeup)
}

func (s *shard) unfollow(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd := s.feeds[topic]; fd != nil {
		delete(s.feeds, topic)
		delete(fd.reader.feeds, topic)
	}
}

// wake wakes readers, together with the next messages that are sent. The caller holds the shard's
// lock.
func (s *shard) wake(keys ...string) {
	for _, key := range keys {
		if !slices.Contains(s.wakeups, key) {
			s.wakeups = append(s.wakeups, key)
		}
	}
	s.out.Wake()
}

// takeWakeups takes the keys of the readers to wake.
func (s *shard) takeWakeups() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, s.wakeups = s.wakeups, nil
	return keys
}

// close waits for the readers, whose context has ended.
func (s *shard) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ended.Wait()
}
