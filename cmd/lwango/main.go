// Lwango is the web server: it serves what lwango.conf in the working directory says. Run it with
// -h for its flags.
package main

import (
	"context"
	"os"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/pubsub/redis"
)

func main() {
	lwango.UseBroker(redis.Broker)
	os.Exit(lwango.Run(context.Background(), "lwango.conf"))
}
