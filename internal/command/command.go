// Package command is the program cmd/lwango, without its profile. For tests of a package main with
// a default.pgo, go test compiles all packages anew, even the standard library. So the tests of the
// command are here, and go.mod excludes cmd/lwango from ./...
package command

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/process/top"
	"github.com/lwango/lwango/pubsub/redis"
)

// Main runs the command with os.Args until it ends, and returns its exit code. It is called once.
func Main() (code int) {
	switch name, args := subcommand(os.Args[1:]); name {
	case "top":
		return top.Main(args, os.Stdin, os.Stdout, os.Stderr)
	case "upstream":
		return server.Upstream(args, os.Stdout, os.Stderr)
	case "purge":
		return server.PurgeCache(args, os.Stderr)
	case "convert":
		return convert.Main(args, os.Stdout, os.Stderr)
	}
	lwango.UseBroker(redis.Broker)
	return lwango.Run(context.Background(), "lwango.conf")
}

// subcommand returns the subcommand that the arguments name, and its own arguments. The flags -c
// and -d may also stand before the name: users are used to lwango -c FILE. Without a subcommand the
// name is empty.
func subcommand(args []string) (name string, own []string) {
	i := 0
	for i < len(args) && strings.HasPrefix(args[i], "-") {
		flag, _, valued := strings.Cut(strings.TrimPrefix(args[i][1:], "-"), "=")
		if flag != "c" && flag != "d" {
			return "", nil
		}
		if i++; !valued {
			i++
		}
	}
	if i >= len(args) || !slices.Contains(server.Subcommands, args[i]) {
		return "", nil
	}
	return args[i], slices.Concat(args[:i], args[i+1:])
}
