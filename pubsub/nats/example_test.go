package nats_test

import (
	"log"
	"log/slog"
	"time"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

// A program shares its topics with all others that name the same broker. A server does so
// itself if its program has called lwango.UseBroker(nats.Broker) and its configuration has a
// [pubsub] url.
func Example() {
	hub := new(pubsub.Hub)
	engine, err := nats.Start(hub, "nats://127.0.0.1:4222", slog.Default())
	if err != nil {
		log.Fatal(err) // the URL is wrong; the broker need not be up
	}
	hub.Topic("weather").Publish([]byte("rain"))
	if unsent := engine.Close(time.Second); unsent > 0 {
		log.Print(unsent, " messages have not reached the broker")
	}
}
