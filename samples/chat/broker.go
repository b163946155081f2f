package main

import (
	"log/slog"
	"strings"
	"time"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
	"github.com/lwango/lwango/pubsub/redis"
)

// byScheme is Redis or NATS, as the URL's scheme says.
type byScheme struct{}

func of(url string) pubsub.Broker {
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "nats", "tls":
		return nats.Broker
	}
	return redis.Broker
}

func (byScheme) Check(url string) error { return of(url).Check(url) }

func (byScheme) Start(hub *pubsub.Hub, url string, log *slog.Logger) (
	disconnect func(grace time.Duration) (unsent int), err error,
) {
	return of(url).Start(hub, url, log)
}
