// Package command is the program cmd/lwango, without its profile. What go test compiles for a package
// main with a default.pgo is compiled for that alone, the standard library, too; so the tests of the
// command are here, and go.mod lets ./... leave out cmd/lwango.
package command

import (
	"context"
	"os"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/top"
	"github.com/lwango/lwango/pubsub/redis"
)

// Main runs the command with os.Args until it ends, and returns its exit code. It is called once.
func Main() (code int) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "top":
			return top.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
		case "upstream":
			return server.Upstream(os.Args[2:], os.Stdout, os.Stderr)
		case "purge":
			return server.PurgeCache(os.Args[2:], os.Stderr)
		}
	}
	lwango.UseBroker(redis.Broker)
	return lwango.Run(context.Background(), "lwango.conf")
}
