// Lwango is the web server: it serves what lwango.conf in the working directory says. Run it with
// -h for its flags. `lwango top` shows a running one in a terminal.
package main

import (
	"context"
	"os"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/top"
	"github.com/lwango/lwango/pubsub/redis"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "top" {
		os.Exit(top.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		os.Exit(server.Upstream(os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "purge" {
		os.Exit(server.PurgeCache(os.Args[2:], os.Stderr))
	}
	lwango.UseBroker(redis.Broker)
	os.Exit(lwango.Run(context.Background(), "lwango.conf"))
}
