package nats_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

var (
	publish    = rooms.Publish
	numbered   = rooms.Numbered
	checkOrder = rooms.CheckOrder
)

func startNode(t testing.TB, url string) *rooms.Node {
	t.Helper()
	return startNodeLogging(t, url, nil)
}

func startNodeLogging(t testing.TB, url string, log io.Writer) *rooms.Node {
	t.Helper()
	return rooms.Start(t, log, func(hub *pubsub.Hub, log *slog.Logger) (rooms.Engine, error) {
		return nats.Start(hub, url, log)
	})
}
