// Package config reads a configuration: the file with what it includes, the command line, and what
// a program says in code. It checks all of it and builds its handlers, and opens nothing.
//
// A Source says where a configuration comes from. Load returns a Config, whose fields with `toml`
// tags are the keys of lwango.conf; the others follow from them. One goroutine calls Load and
// Config's methods. A server that puts a Config into force sets Loops and Ports, and calls Observe
// and Begin; then handlers may use them. The handlers and the Router do not change, and any loop
// calls them.
//
//	config.go       Config: the keys
//	source.go       Source: reading a configuration
//	check.go        the keys of the whole file and of listeners, and what follows from them
//	code.go         settings that a program makes in code
//	include.go      the files that a configuration consists of, and where they are
//	proxies.go      the keys about proxies in front
//	confine.go      [confine], and which files a configuration names
//	debug.go        [debug]
//	reach.go        the listeners and schemes of a site; https addresses
//	sets.go         [set.NAME]: what sites and routes take from it
//	upstreams.go    [[upstream]], and what routes take from it
//	streams.go      [[stream]]
//	sites.go        from [[site]] tables to a router
//	around.go       what sites and routes have in common: the layers around modules
//	browsers.go     the keys security_headers, cors and csrf
//	cache.go        [cache], and the key cache of sites and routes
//	compression.go  the key compression, from the file's to the route's
//	counted.go      the numbers of routes, and what handlers see of the server
//	builtin.go      the modules and handlers that come with lwango
//	welcome.go      the page of a server that has nothing to serve
//	explain.go      -u: the way of an imagined request
//	inforce.go      -T: the keys that are in force
package config

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/https"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// maxGrace is Grace or Drain where these have no limit.
const maxGrace = 24 * time.Hour

// Config is a checked configuration, and what is made of it. The `toml` tags are the keys of the
// file; Load computes the fields without a tag.
type Config struct {
	Table settings.Table `toml:",table"`

	// Include names further files, see lwango.conf.
	Include []string `toml:"include"`

	conn.Limits `toml:",inline"`

	// Process.

	// Grace is for requests in flight when the server is stopped; -1: they have 24h.
	Grace time.Duration `toml:"grace" min:"-1" max:"24h" default:"5s"`
	// StopDelay is how long a server that is stopped goes on to listen, while it says that it is not
	// ready.
	StopDelay time.Duration `toml:"stop_delay" min:"0s" max:"1h" default:"0s"`
	// Drain is for the requests, streams and WebSockets of a server that another one has replaced; -1:
	// they have 24h.
	Drain time.Duration `toml:"drain" min:"-1" max:"24h" default:"1m"`
	// PIDFile has the number of the process, for -upgrade; empty: there is none.
	PIDFile string `toml:"pid_file"`
	// Watchdog reports a handler that blocks its loop for longer; -1: never.
	Watchdog time.Duration `toml:"watchdog" min:"-1" max:"1h" default:"100ms"`
	// Threads is the number of event loops; 0: one for each CPU.
	Threads int `toml:"threads" min:"0" max:"1024"`
	// Workers is how many functions of Await run at a time, for each loop.
	Workers int `toml:"workers" min:"1" max:"100000" default:"64"`
	// Handoff is how requests and loops switch; with "direct" a handler must not wait with its OS
	// thread locked.
	Handoff string `toml:"handoff" oneof:"channel direct" default:"direct"`

	// Headers are fields that every response gets that does not have them.
	Headers map[string][]string `toml:"headers"`
	// Listeners are the addresses to listen at; without any, *:8080.
	Listeners []Listener `toml:"listener"`
	// AccessLog has a line for each request: a table, or false.
	AccessLog *accesslog.Config `toml:"access_log"`
	// ErrorLog is the log of the server itself.
	ErrorLog ErrorLog `toml:"error_log"`
	// Confine is what the process gives up when its sockets listen: rights, files, system calls.
	Confine *Confine `toml:"confine"`
	// TLS is what listeners with TLS share.
	TLS TLS `toml:"tls"`
	// Pubsub says where topics are: in this process, or in a Redis.
	Pubsub Pubsub `toml:"pubsub"`
	// Debug is where the server can be looked into.
	Debug Debug `toml:"debug"`
	// Compress is what clients get compressed: a table, or true or false.
	Compress Compression `toml:"compression"`
	// CacheStore is where the answers are that routes with `cache` keep.
	CacheStore CacheStore `toml:"cache"`
	// Sets are keys that several sites or routes use, by a name.
	Sets map[string]Set `toml:"set"`
	// Named are upstreams that several routes use, by their names.
	Named []Upstream `toml:"upstream"`
	// Maps are placeholders whose values follow from a text.
	Maps []Map `toml:"map"`
	// Streams are listeners whose connections are passed on to upstreams, whatever they speak.
	Streams []tcpproxy.Settings `toml:"stream"`
	// Sites are the virtual hosts.
	Sites []Site `toml:"site"`

	unusedSets []settings.Table
	values     *placeholder.Maps // of Maps

	text   *settings.File // what was read
	reader *certs.Reader
	code   *settings.File // of Source.Code, has no text; nil: nothing reports errors there

	// File is the path of the file, empty if there is none. Dir is its folder, or else the working
	// directory; relative paths in the configuration begin there. Both are absolute.
	File, Dir string

	// Router sends requests to the sites, or, with servesRoot, to the folder of -r.
	Router     *handlers.Router
	servesRoot bool

	// LargestBody is the largest max_body_size of a site or a route, in bytes.
	LargestBody int64

	// services serve the Streams.
	services []*tcpproxy.Service

	// compression is for all sites without the key.
	compression scope

	limits *limit.Names // those that processes share

	// store is where routes keep answers; caches says that any does.
	store  *cache.Store
	caches bool
	logger *slog.Logger

	// Descriptors is how many descriptors the handlers of the routes hold between requests. OpenFiles
	// is how many files they keep open besides, if the process has that many to spare, and
	// OpenFilesPerLoop how many each loop keeps.
	Descriptors, OpenFiles, OpenFilesPerLoop int

	// HandlerFiles are the paths of files and folders that the settings of handlers have.
	HandlerFiles []string

	// Background has the goroutines of the handlers, see handlers.Env. End ends them, and returns when
	// they have ended; nil: they have not begun.
	Background []func(context.Context)
	End        func()

	acmeWarning string

	// Counted says that a handler needs requests counted by route. Upstreams has the upstreams of all
	// handlers.
	observer  atomic.Pointer[func() (*metrics.Snapshot, error)]
	Counted   bool
	Upstreams []Upstreams
	stopping  atomic.Bool

	// Loops are the loops of the server that uses this configuration; see handlers.Env.
	Loops []*loop.Loop

	// Ports are the ports of the server's listeners, by address. It is empty before the server
	// listens, and has no UNIX sockets.
	Ports map[sockets.Address]int
}

// Listener is a [[listener]].
type Listener struct {
	Table settings.Table `toml:",table"`
	// Name is what sites choose the listener by.
	Name             string `toml:"name"`
	sockets.Endpoint `toml:",inline"`
	TLS              certs.TLS `toml:",inline"`
	// HTTP2 is whether clients may speak HTTP/2 as well: over TLS by ALPN, as they may by default,
	// else with prior knowledge.
	HTTP2 bool `toml:"http2"`

	// TrustedProxies are peers whose forwarding headers are trusted: networks, addresses, and
	// "unix:".
	TrustedProxies []string `toml:"trusted_proxies"`
	// ProxyFields is which header fields they say it in; empty: x-forwarded.
	ProxyFields string `toml:"proxy_fields" oneof:"x-forwarded forwarded x-real-ip"`
	// ProxyProtocol is whether connections begin with a header of the PROXY protocol.
	ProxyProtocol bool `toml:"proxy_protocol"`

	Proxies *conn.Proxies // of the keys above; nil without any that is trusted

	Stream *tcpproxy.Service // of a [[stream]], whose listener this is; nil: none

	// Of a program alone, see Source.Code.
	Streams func(*loop.Thread, *stream.Conn) error
	Idle    time.Duration // of streams
}

// Map is a [[map]].
type Map struct {
	Table settings.Table `toml:",table"`

	placeholder.Settings `toml:",inline"`
}

// TLS is [tls].
type TLS struct {
	// ACME gets certificates from an authority and renews them, for listeners with tls = { acme =
	// true }.
	ACME *certs.ACME `toml:"acme"`
}

// Pubsub is [pubsub].
type Pubsub struct {
	Table settings.Table `toml:",table"`
	// URL is of a Redis, as in redis://user:password@127.0.0.1:6379/0; rediss:// for TLS,
	// redis+sentinel:// and redis+cluster:// for several servers. A program with pubsub/nats has
	// NATS, as in nats://127.0.0.1:4222.
	URL string `toml:"url"`

	// MaxBytes bounds the messages of all topics together; 64MiB by default.
	MaxBytes handlers.Size `toml:"max_bytes" min:"1MiB" max:"1TiB"`
}

// ErrorLog is [error_log].
type ErrorLog struct {
	Table settings.Table `toml:",table"`
	// Path is a file, "stderr:", "stdout:", "journald:", or "syslog:" and an address.
	Path string `toml:"path" default:"stderr:"`
	// Level leaves out lines of less weight.
	Level string `toml:"level" oneof:"debug info warn error" default:"info"`
	// Format is "text", or "json", an object a line.
	Format string `toml:"format" oneof:"text json" default:"text"`
}

// check checks the table. Relative paths begin in dir.
func (e *ErrorLog) check(dir string, inCode bool) {
	if inCode {
		for _, key := range []string{"path", "level", "format"} {
			if e.Table.Has(key) {
				e.Table.Errorf(key, "is for a server that is its process; a program that starts a server "+
					"in code gives it a Logger")
			}
		}
		return
	}
	path, err := accesslog.CheckOutput(dir, e.Path)
	if err != nil {
		e.Table.Errorf("path", "%v", err)
	}
	e.Path = path
}

// IsFile reports whether Path is a file.
func (e *ErrorLog) IsFile() bool { return filepath.IsAbs(e.Path) }

// Writable returns why the file cannot be opened for writing, or made.
func (e *ErrorLog) Writable() error {
	if e.IsFile() {
		if err := accesslog.Writable(e.Path); err != nil {
			return e.Table.Wrong("path", err)
		}
	}
	return nil
}

// Apply makes logs write as the table says, except where.
func (e *ErrorLog) Apply(logs *asynclog.Log) {
	logs.SetJSON(e.Format == "json")
	var level slog.Level
	if level.UnmarshalText([]byte(e.Level)) == nil { // it was checked
		logs.SetLevel(level)
	}
}

// Open opens Path; nil: it is the server's stderr. Trouble goes to log.
func (e *ErrorLog) Open(log *slog.Logger) (*accesslog.Output, error) {
	if e.Path == "" || e.Path == "stderr:" {
		return nil, nil
	}
	out, err := accesslog.OpenOutput(e.Path, log)
	if err != nil {
		return nil, e.Table.Wrong("path", err)
	}
	return out, nil
}

// Site is a [[site]].
type Site struct {
	Table settings.Table `toml:",table"`
	// Hosts are the names that the site answers for, with *.example.org for all below one; without
	// any, all that no other site names.
	Hosts []string `toml:"host"`
	// Names are the names of the listeners at which the site answers; without any, all.
	Names []string `toml:"listener"`
	// Scheme is which requests the site answers; empty: both.
	Scheme string `toml:"scheme" oneof:"http https"`
	// Routes are the routes; the longest prefix wins.
	Routes []Route `toml:"route"`
	// AccessLog is for the site's requests, instead of the server's: a table, or false.
	AccessLog *accesslog.Config `toml:"access_log"`
	TLS       certs.Site        `toml:",inline"`
	HTTPS     https.Settings    `toml:",inline"`
	Around    Around            `toml:",inline"`

	Listeners []string // of Names, as conn.Listener has them
}

// Route is a [[site.route]]. All keys but its own belong to its module.
type Route struct {
	// Prefix is the beginning of the paths that the route is for; it ends at a slash.
	Prefix string `toml:"prefix"`
	// Exact leaves the route the path prefix alone, and no other below it.
	Exact bool `toml:"exact"`
	// Regexp must match the path of a request; the first such route wins, before all others but exact
	// ones.
	Regexp string `toml:"regexp"`
	// Module is what answers; its keys stand beside this one.
	Module string `toml:"module"`
	// Handler is a compiled-in handler that answers, instead of a module.
	Handler string `toml:"handler"`
	// AccessLog is for the route's requests, instead of the site's or the server's: a table, or false.
	AccessLog *accesslog.Config `toml:"access_log"`
	// Internal hides the route from clients, which get 404: only an application leads to it, by
	// accel_redirect, or a rule, an error page, or auth.
	Internal bool           `toml:"internal"`
	Around   Around         `toml:",inline"`
	Rest     settings.Table `toml:",rest"`

	upstream *Upstream // that its key upstream names; nil: it has none, or several
	chosen   *choice   // those that its key upstream stands for; nil: it has one, or none

	re      *regexp.Regexp // of Regexp
	cache   *Cache         // its own, or its site's; nil: none
	depends []string       // what its answers depend on besides the URL, in words
}

// Defaults returns the configuration of an empty file.
func Defaults() *Config { return new(tags.Defaults[Config]()) }
