package nats

import (
	"log/slog"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// Engine is a pubsub.Selector.
type Engine struct {
	base   *engine.Base
	target *target
	out    *engine.Outbox
	reader *reader
	conn   atomic.Pointer[natsgo.Conn] // nil until the reader has made it

	costly atomic.Bool // a batch costs the server as much as batchCost

	// Of the outbox's goroutine: how long the last message that was published alone took.
	took time.Duration

	selections selections
}

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
func Start(hub *pubsub.Hub, rawURL string, log *slog.Logger) (*Engine, error) {
	at, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	e := &Engine{target: at, base: engine.New(hub, log.With("broker", at.hosts()), "nats")}
	e.out = e.base.Outbox(maxBatch, e.send, func() {})
	e.reader = newReader(e)
	hub.Connect(e)
	go e.reader.run()
	return e, nil
}

// Publish implements pubsub.Engine.
func (e *Engine) Publish(topic string, m *pubsub.Message) { e.out.Add(topic, m) }

// Follow implements pubsub.Engine.
func (e *Engine) Follow(topic string, to *pubsub.Feed) {
	e.reader.change(change{topic: topic, to: to, since: time.Now(), pending: e.out.Waiting(topic)})
}

// Unfollow implements pubsub.Engine.
func (e *Engine) Unfollow(topic string) { e.reader.change(change{topic: topic}) }

// Close sends the queued messages, within the grace period, and stops the goroutines. Messages that
// are published later stay in the process. It returns how many messages were not sent.
//
// Members of queue groups leave before. Messages that they have not received by now go to other
// processes; a member that has not left may receive some of them as well.
func (e *Engine) Close(grace time.Duration) (unsent int) {
	unsent = e.base.Close(grace)
	e.selections.close()
	<-e.reader.ended
	return unsent
}

// Lost returns how many messages have not reached the broker and never will.
func (e *Engine) Lost() int { return e.base.Lost() }
