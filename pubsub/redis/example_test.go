package redis_test

import (
	"log"
	"log/slog"
	"time"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// A program shares its topics with all others that name the same broker. A server does so
// itself if its program has called lwango.UseBroker(redis.Broker) and its configuration has a
// [pubsub] url.
func Example() {
	hub := new(pubsub.Hub)
	engine, err := redis.Start(hub, "redis://127.0.0.1:6379/0", slog.Default())
	if err != nil {
		log.Fatal(err) // the URL is wrong; the broker need not be up
	}
	hub.Topic("weather").Publish([]byte("rain"))
	if unsent := engine.Close(time.Second); unsent > 0 {
		log.Print(unsent, " messages have not reached the broker")
	}
}
