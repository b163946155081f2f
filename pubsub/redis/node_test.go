package redis_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

const limit = rooms.Limit // for what must come

var (
	publish    = rooms.Publish
	numbered   = rooms.Numbered
	checkOrder = rooms.CheckOrder
)

type follower = rooms.Follower

// node is a node with an engine of this package.
type node struct {
	*rooms.Node
	engine *redis.Engine
}

func startNode(t testing.TB, url string) *node {
	t.Helper()
	return startNodeLogging(t, url, nil)
}

func startNodeLogging(t testing.TB, url string, log io.Writer) (n *node) {
	t.Helper()
	n = new(node)
	n.Node = rooms.Start(t, log, func(hub *pubsub.Hub, log *slog.Logger) (rooms.Engine, error) {
		var err error
		n.engine, err = redis.Start(hub, url, log)
		return n.engine, err
	})
	return n
}

// wire is what lies between a node and a broker.
type wire struct{ *rooms.Wire }

func startWire(t testing.TB, b *broker.Broker) wire { return wire{rooms.StartWire(t, b.Addr())} }

func (w wire) url() string { return "redis://" + w.Addr() }
