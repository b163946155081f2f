// Package lwango is for programs with request handlers of their own. A whole program:
//
//	package main
//
//	import "github.com/lwango/lwango"
//
//	func main() {
//		lwango.Handle("/", func(req *lwango.Request, resp *lwango.Response) int {
//			resp.WriteString("Hello, " + req.Path())
//			return 200
//		})
//		lwango.Main()
//	}
//
// Such a program has the command line and the modules of lwango itself. It reads a configuration
// (see lwango.conf in the repository) if -c names one, or if it asks for one itself (see Run). Then
// its handlers stand beside the routes of the file. It may define flags of its own (see
// ParseFlags).
//
// A handler runs on a green thread of one of the server's event loops. It is written as plain
// sequential code: reading the body, writing the answer and req.Sleep yield to the loop and come
// back. A call that blocks in any other way - on a mutex, a channel, a file, another connection -
// holds up all requests of that loop. Handlers of net/http, which HTTP takes, may block.
package lwango

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/asynclog"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/pubsub"
)

type (
	// Request is a client's request. It belongs to its handler until that returns.
	Request = conn.Request

	// Response is the answer that the handler makes. It belongs to the handler until that returns.
	Response = conn.Response

	// Handler answers a request and returns the status; 0 means 200. See conn.Handler.
	Handler = conn.Handler
)

// program is the one default server program that Handle and Main speak of.
var program = server.NewProgram(server.Builtin())

// Handle lets h answer all requests whose path is prefix or begins with prefix and a slash; the
// longest prefix wins. Call it before Main, from any goroutine. It panics if the prefix is invalid
// or was given before.
//
// The prefix is served on every site of the configuration, and with no configuration at all there
// is nothing else. If a site, or -r, routes the same prefix, one of the two would get no requests:
// the program names the prefix and ends with exit code 2.
func Handle(prefix string, h Handler) { program.Handle(prefix, h) }

// Topics returns the topics that handlers publish and subscribe to. They are those of the process,
// or of all processes that share a Redis, if [pubsub] in the configuration names one. See package
// pubsub.
func Topics() *pubsub.Hub { return &program.Topics }

// stock is slog's first logger. It writes on the goroutine that calls it, which may be a loop.
var stock = slog.Default()

// options is the command line, once it was parsed.
var options *server.Options

// ParseFlags reads the command line; Main does so if the program has not. A program that needs the
// values of its own flags before Main calls it instead of flag.Parse. Flags that it has defined
// with package flag work beside lwango's: -c, -l, -r, -t, -v and -h keep their meaning. A mistake
// ends the program with 2, as Main does, and -h prints all flags.
func ParseFlags() {
	o, code := server.Parse(os.Args[1:], flag.CommandLine, os.Stdout, os.Stderr)
	if o == nil {
		os.Exit(code)
	}
	options = o
}

// HTTP makes a Handler of any net/http handler. It runs off the loop and may block. See conn.HTTP.
func HTTP(h http.Handler) Handler { return conn.HTTP(h) }

// HTTPOnLoop is HTTP for handlers that do not block: they run on the request's own thread, and cost
// less.
func HTTPOnLoop(h http.Handler) Handler { return conn.HTTPOnLoop(h) }

// Main runs the server as the command line says, until a signal stops it. It does not return: it
// exits with 0 when stopped, 1 after a failure, 2 if the command line or the configuration is
// wrong. Started with -h it prints its flags. It does not read a file in the working directory: see
// Run for a program that wants one.
func Main() { os.Exit(Run(context.Background(), "")) }

// Run is Main for a program that has more to do than to serve. It returns the exit code. It stops
// at the end of ctx as it does at a signal; a signal that causes both counts once. The
// configuration is file, unless the command line names another; there is none if file is "" or does
// not exist. It can be called once.
//
// Unless the program has set slog's default logger, Run sets it to the server's own, which writes
// to stderr from a goroutine: a handler may use slog, and its loop does not wait for the reader of
// the log. Of lines with the same message, 10 a second are logged after the first 50, and the rest
// are counted; the message and the text of an attribute are cut to 256 bytes, those of attributes
// called stack and message to 16 KiB. When Run returns, what was logged is written, as far as the
// reader takes it within a second; from then on slog writes on the calling goroutine, as package
// log always does.
func Run(ctx context.Context, file string) int {
	if options == nil {
		ParseFlags()
	}
	if slog.Default() == stock {
		w, flags := log.Writer(), log.Flags()
		logs := asynclog.New(os.Stderr)
		defer logs.Close(time.Second)
		slog.SetDefault(logs.Logger())
		log.SetOutput(w) // what log.Fatal says would be lost in a queue
		log.SetFlags(flags)
	}
	return program.Main(ctx, options, file, os.Stdout, os.Stderr)
}
