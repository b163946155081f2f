// Package lwango is for programs with request handlers of their own. A complete program:
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
// A handler runs on a green thread of one of the server's event loops. It is plain sequential code:
// reading the body, writing the answer and req.Sleep yield to the loop while they wait. Any other
// call that blocks (on a channel, or another library's connection) stops all requests of that loop;
// Await runs such a call off the loop. HTTP takes handlers of net/http, which may block.
//
//	Request, Response, Handler          an exchange; its methods wait on the green thread
//	Handle, Use, NewMux                 routes and middleware
//	HTTP, HTTPMiddleware                handlers and middleware of net/http
//	Await, Call, Get                    what blocks; other servers
//	Key, Set, Value, ValueOf, UserOf    what goes with a request
//	Topics, UseBroker                   messages between handlers, and between processes
//	UseDNS                              certificates for wildcards
//	Main, Run, ParseFlags               a program with lwango's command line
//	ListenAndServe, Server              a program with its own
//
// docs/write/api.md in the repository goes through them in an hour. Package loop has threads and
// promises, conn all of Request and Response, lwangotest servers for tests.
//
// A program that calls Main has the command line and the modules of lwango itself. It reads a
// configuration (see lwango.conf in the repository) if -c names one, or if the program asks for one
// (see Run). Its handlers are served beside the routes of that file, and it may define flags beside
// lwango's (see ParseFlags). ListenAndServe and Server read no flags and obey no signals.
//
// A sync.Mutex must not be held while the handler waits, not even in a write to a client that may
// not read: the next handler that locks it stops the loop for good. loop.Mutex is for that.
//
// If a handler has locked its OS thread (runtime.LockOSThread, as some bindings to C libraries do)
// when it waits or returns, the process ends, unless the configuration has `handoff = "channel"`.
// Functions of req.Await, and handlers of HTTP, may lock threads.
package lwango

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

type (
	// Request is a client's request. It belongs to its handler until the handler returns. Most
	// handlers need only these methods; conn.Request lists all:
	//
	//	Method Path PathValue Query Header Host Cookie BasicAuth    what was asked for
	//	Body Form MultipartForm Parts BindJSON BindForm BindQuery   what came with it
	//	RemoteAddr Secure TLS ID User Pattern                       by whom, how, and where to
	//	Sleep After Await AwaitAny AwaitAll Within Go Join          waits, and threads beside it
	//	Context SetContext Gone Defer                               its end
	Request = conn.Request

	// Response is the answer. It belongs to the handler until the handler returns. Most handlers need
	// only these methods; conn.Response lists all:
	//
	//	Text HTML JSON Error Redirect ServeContent                  whole answers: return their result
	//	Header SetCookie SetStatus AddTrailer Inform                the head
	//	SetBody SetBodyReader SetBodyFile                           a body, sent once the handler
	//	                                                            returns
	//	Write WriteString Flush                                     a body as it is made
	//	Abort Hijack                                                an end of another kind
	Response = conn.Response

	// Header is the fields of a request or an answer, as Header of Request and Response returns them.
	// See conn.Header.
	Header = conn.Header

	// Handler answers a request and returns the status; 0 means 200. See conn.Handler.
	Handler = conn.Handler

	// Mux sends requests to the handlers of patterns. See handlers.Mux.
	Mux = handlers.Mux

	// Group has handlers of a Mux with a common prefix or common layers. See handlers.Group.
	Group = handlers.Group

	// Key names a value that layers give to a request. See conn.Key.
	Key[T any] = conn.Key[T]

	// Purge names the answers that Cache().Purge purges. See cache.Purge.
	Purge = cache.Purge

	// Middleware wraps a handler, next: it calls next, or answers itself. See handlers.Middleware.
	Middleware = handlers.Middleware
)

// program is the server program of Handle and Main; a process has one.
var program = server.NewProgram(config.Builtin())

// Handle registers h for a pattern of net/http.ServeMux, such as "GET /items/{id}"; see
// handlers.Mux. But a plain path, with neither method nor host nor wildcard, is a prefix, as in the
// configuration: "/app" matches /app and all paths below it, with or without a slash at its end.
// (For a Mux of NewMux, "/app" is that path alone, as for net/http.)
//
// Handle is called before Main, from any goroutine. It panics if the pattern is invalid or
// conflicts with a registered one; the panic names the places of both.
//
// The handlers are served on every site of the configuration; without a configuration nothing else
// is served. If a route of the configuration, or -r, matches a request as well, the one with the
// longer path answers. The path of a pattern is its part before the first wildcard; the pattern
// wins over a route of the same length, unless that is exact. If the configuration has a route
// with the same prefix as a plain path, one of the two would never run: then the program names the
// prefix and exits with 2.
func Handle(pattern string, h Handler) { program.Handle(pattern, h) }

// NewMux makes a Mux of its own. Its Serve is a Handler.
func NewMux() *Mux { return handlers.NewMux() }

// Use puts middleware around every request of every site, including requests that modules of the
// configuration answer. The first layer is the outermost. Use is called before Main, from any
// goroutine. The layers of the site's configuration (compression, error pages, rules, limit, auth,
// use) are around the middleware, and the middleware is around the choice of the route: its next
// leads to the route's own layers and then the module, or to a handler of the program. It is called
// once for each site at the start, and again at a reload. See Mux.Use for one that forgets to call
// next.
func Use(layers ...Middleware) { program.Use(layers...) }

// RegisterMiddleware gives m a name, with which a site or a route of the configuration uses it:
// `use = ["name"]`. It is called before Main, from any goroutine, and panics if the name is empty
// or taken.
func RegisterMiddleware(name string, m Middleware) { program.RegisterMiddleware(name, m) }

// Topics returns the topics that handlers publish and subscribe to. They belong to the process, or,
// if [pubsub] in the configuration names a broker, to all processes that share it (see UseBroker).
// See package pubsub.
func Topics() *pubsub.Hub { return &program.Topics }

// UseBroker lets [pubsub] url in a configuration share the topics with other processes. It is
// called before Main, with redis.Broker of package pubsub/redis, or nats.Broker of the module
// pubsub/nats. Without it, a program contains no client of either, and refuses a configuration with
// that key.
func UseBroker(b pubsub.Broker) { program.Broker = b }

// TXTRecords adds and removes TXT records of the DNS. The server calls its methods on goroutines of
// its own; name is such as _acme-challenge.example.org. Several records of one name are there at
// once, for a name and its wildcard: AddTXT keeps others, and RemoveTXT removes the one with that
// value. The context of both ends after the timeout of the configuration, a minute by default. Of a
// provider of libdns it is made by
//
//	func (p provider) AddTXT(ctx context.Context, name, value string) error {
//		record := libdns.TXT{Name: libdns.RelativeName(name, p.zone), Text: value, TTL: time.Minute}
//		_, err := p.AppendRecords(ctx, p.zone, []libdns.Record{record})
//		return err
//	}
//
// and likewise RemoveTXT by DeleteRecords.
type TXTRecords interface {
	AddTXT(ctx context.Context, name, value string) error
	RemoveTXT(ctx context.Context, name, value string) error
}

// UseDNS lets certificates be obtained by the challenge dns-01, which proves wildcards, too: where
// the configuration has dns without a command, or an ACME has that challenge. It is called before
// Main, and before a Server is started.
func UseDNS(r TXTRecords) { program.DNS = r }

// Cache returns the store of answers of all routes with `cache`, of all servers of the process. A
// program purges answers that are no longer true:
//
//	lwango.Cache().Purge(lwango.Purge{Tags: []string{"product-7"}})
//
// With [cache] disk in the configuration that writes to the disk: a handler calls it by
// Request.Await.
func Cache() *cache.Store { return program.Cache() }

// initialLogger is slog's default logger at the start. It writes on the goroutine that calls it,
// which may be a loop.
var initialLogger = slog.Default()

// options is the command line, nil until it is parsed.
var options *server.Options

// ParseFlags parses the command line; if the program has not called it, Main does. A program that
// needs the values of its own flags before Main calls it instead of flag.Parse. It accepts the
// flags that the program has defined with package flag, and lwango's own: -c, -l, -r, -t, -u, -v
// and -h keep their meaning. A mistake ends the program with 2, as in Main, and -h prints all
// flags.
func ParseFlags() {
	o, code := server.Parse(os.Args[1:], flag.CommandLine, os.Stdout, os.Stderr)
	if o == nil {
		os.Exit(code)
	}
	options = o
}

// Get asks another server for url, which begins with http:// or https://, and waits for the head of
// its answer. limit is for the whole exchange, including reads of resp.Body; negative: without
// limit. Waits also end when the client of req leaves. Redirects are not followed. Connections are
// kept for further requests. See package client for the errors, for other methods, and for threads
// that req has started.
func Get(req *Request, limit time.Duration, url string) (*client.Response, error) {
	return client.Get(req.Thread, limit, url)
}

// Await runs f, which may block, off the loop, and waits for its result, for d at most; negative:
// without limit. It is for libraries that take a context, such as database/sql: f's ends at the
// limit, when the client leaves, and when the server's stop cuts the request. At most
// Server.Workers functions of a loop run at a time, and loop.Stats counts them. See conn.Await for
// the errors.
func Await[T any](req *Request, d time.Duration,
	f func(ctx context.Context) (T, error)) (T, error) {
	return conn.Await(req, d, f)
}

// Set gives the request a value, for the handlers that run after the caller. See conn.Set.
func Set[T any](req *Request, key *Key[T], v T) { conn.Set(req, key, v) }

// Value returns the value that Set has given the request, and whether there is one. See conn.Value.
func Value[T any](req *Request, key *Key[T]) (v T, ok bool) { return conn.Value(req, key) }

// ValueOf returns the value that Set has given the request to which ctx belongs, for an
// http.Handler and for functions off the loop. See conn.ValueOf.
func ValueOf[T any](ctx context.Context, key *Key[T]) (v T, ok bool) {
	return conn.ValueOf(ctx, key)
}

// UserOf returns the user of the request to which ctx belongs, "" if there is none. See
// Request.User.
func UserOf(ctx context.Context) string { return conn.UserOf(ctx) }

// Call begins f as Await does, and returns a promise of its result, for loop.Collect, loop.First
// and req.AwaitAny: so several functions run at the same time. See conn.Call.
func Call[T any](req *Request, d time.Duration,
	f func(ctx context.Context) (T, error)) *loop.Promise[T] {
	return conn.Call(req, d, f)
}

// HTTP makes a Handler of a net/http handler, which runs off the loop and may block. See conn.HTTP.
func HTTP(h http.Handler) Handler { return conn.HTTP(h) }

// HTTPOnLoop is HTTP for a handler that does not block: it runs on the request's thread, and costs
// less.
func HTTPOnLoop(h http.Handler) Handler { return conn.HTTPOnLoop(h) }

// HTTPMiddleware makes middleware for native handlers of middleware of net/http, which runs off the
// loop and may block. The handlers stay on their loop. See conn.HTTPMiddleware.
func HTTPMiddleware(m func(next http.Handler) http.Handler) Middleware {
	return conn.HTTPMiddleware(m)
}

// HTTPMiddlewareOnLoop is HTTPMiddleware for middleware that does not block: it runs on the
// request's thread, and costs less.
func HTTPMiddlewareOnLoop(m func(next http.Handler) http.Handler) Middleware {
	return conn.HTTPMiddlewareOnLoop(m)
}

// Main runs the server according to the command line, until a signal stops it. It does not return:
// it exits with 0 when stopped, 1 after a failure, 2 if the command line or the configuration is
// wrong. If a handler blocks its loop when the grace period of the stop is over, Main exits with 1
// two seconds later. With -h it prints its flags. It reads no lwango.conf of the working directory;
// a program that wants a file calls Run.
func Main() { os.Exit(Run(context.Background(), "")) }

// Run is Main for a program that does more than serve. It returns the exit code, and stops at the
// end of ctx as at a signal; if one signal causes both, it counts once. The configuration is that
// of the command line, or else file; there is none if file is "" or does not exist. Run can be
// called once.
//
// Unless the program has set slog's default logger, Run sets it to the server's own, which writes
// to stderr from a goroutine of its own. So a handler may use slog, and its loop does not wait for
// the reader of the log. Of lines with the same message, 10 a second are logged after the first 50,
// and the others are counted. The message and the text of an attribute are cut to 256 bytes, but
// attributes called stack, suspended and message to 16 KiB. When Run returns, all lines are written
// that the reader takes within a second; from then on slog writes on the goroutine that calls it,
// as package log always does.
func Run(ctx context.Context, file string) int {
	if options == nil {
		ParseFlags()
	}
	if slog.Default() == initialLogger {
		w, flags := log.Writer(), log.Flags()
		logs := asynclog.New(os.Stderr)
		defer logs.Close(time.Second)
		slog.SetDefault(logs.Logger())
		log.SetOutput(w) // the text of log.Fatal would be lost in a queue
		log.SetFlags(flags)
	}
	return program.Main(ctx, options, file, os.Stdout, os.Stderr)
}
