package redis

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const heartbeat = 2 * time.Second // how long a read blocks at most

// Engine is a pubsub.Selector.
type Engine struct {
	base       *engine.Base
	target     *target
	finder     finder
	shards     []*shard
	selections selections
}

// silenceLogger turns off the logger of the library, which writes a line to stderr for each attempt
// to connect. The engine gets the errors, and logs once what follows from them.
var silenceLogger = sync.OnceFunc(logging.Disable)

// Broker is for lwango.UseBroker.
var Broker pubsub.Broker = broker{}

type broker struct{}

func (broker) Check(url string) error { return Check(url) }

func (broker) Start(hub *pubsub.Hub, url string, log *slog.Logger) (
	func(grace time.Duration) (unsent int), error,
) {
	e, err := Start(hub, url, log)
	if err != nil {
		return nil, err
	}
	return e.Close, nil
}

// Start connects hub to the broker at the URL, which need not be up. It is called once, before the
// first Subscribe.
//
// The library has one logger for a whole program. The first Start silences it. A program that has
// clients of its own may call SetLogger afterwards.
func Start(hub *pubsub.Hub, rawURL string, log *slog.Logger) (*Engine, error) {
	at, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	silenceLogger()
	e := &Engine{
		base:   engine.New(hub, log.With("broker", strings.Join(at.addrs, ",")), "redis"),
		target: at,
		finder: at.finder(),
	}
	if at.cluster {
		for _, tag := range tags {
			e.shards = append(e.shards, newShard(e, clusterPrefix(tag)))
		}
	} else {
		e.shards = []*shard{newShard(e, prefix)}
	}
	hub.Connect(e)
	first := e.shards[0]
	first.mu.Lock()
	defer first.mu.Unlock()
	first.start(false) // its reader notices when the broker is gone
	return e, nil
}

// Publish implements pubsub.Engine.
func (e *Engine) Publish(topic string, m *pubsub.Message) { e.shard(topic).out.Add(topic, m) }

// Follow implements pubsub.Engine.
func (e *Engine) Follow(topic string, to *pubsub.Feed) { e.shard(topic).follow(topic, to) }

// Unfollow implements pubsub.Engine. The topic is still read until the next read begins.
func (e *Engine) Unfollow(topic string) { e.shard(topic).unfollow(topic) }

// Close sends the queued messages, within the grace period, and stops the goroutines. Messages that
// are published later stay in the process. It returns how many messages were not sent.
//
// Members of queue groups leave before. Messages that they have not received by now go to other
// processes; a member that has not left may receive some of them as well.
func (e *Engine) Close(grace time.Duration) (unsent int) {
	start := time.Now()
	e.selections.release(min(grace, engine.AnswerTimeout/2))
	unsent = e.base.Close(max(grace-time.Since(start), 0))
	e.selections.ended.Wait()
	for _, s := range e.shards {
		s.close()
	}
	e.finder.close()
	return unsent
}

// Lost returns how many messages have not reached the broker and never will.
func (e *Engine) Lost() int { return e.base.Lost() }
