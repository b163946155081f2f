package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/https"
	"github.com/lwango/lwango/internal/accesslog"
	"github.com/lwango/lwango/internal/certs"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/metrics"
	"github.com/lwango/lwango/internal/settings"
	"github.com/lwango/lwango/internal/sockets"
	"github.com/lwango/lwango/internal/tags"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)

// config is a checked configuration, with what follows from it. The `toml` tags are the keys of the
// file; the fields without one are computed by load.
type config struct {
	Table settings.Table `toml:",table"`

	// Include names further files, see lwango.conf.
	Include []string `toml:"include"`

	conn.Limits `toml:",inline"`

	// Process.

	// Grace is for requests in flight when the server is stopped.
	Grace time.Duration `toml:"grace" min:"0s" max:"24h" default:"5s"`
	// Drain is for the requests, streams and WebSockets of a server that another one has replaced.
	Drain time.Duration `toml:"drain" min:"0s" max:"24h" default:"1m"`
	// PIDFile has the number of the process, for -upgrade; empty: there is none.
	PIDFile string `toml:"pid_file"`
	// Watchdog reports a handler that blocks its loop for longer; 0s: never.
	Watchdog time.Duration `toml:"watchdog" min:"0s" max:"1h" default:"100ms"`
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
	Listeners []listenerConfig `toml:"listener"`
	// AccessLog has a line for each request.
	AccessLog *accesslog.Config `toml:"access_log"`
	// ErrorLog is the log of the server itself, which goes to stderr.
	ErrorLog errorLogConfig `toml:"error_log"`
	// Confine is what the process gives up when its sockets listen: rights, files, system calls.
	Confine *confineConfig `toml:"confine"`
	// TLS is what listeners with TLS share.
	TLS tlsConfig `toml:"tls"`
	// Pubsub says where topics are: in this process, or in a Redis.
	Pubsub pubsubConfig `toml:"pubsub"`
	// Debug is where the server can be looked into.
	Debug debugConfig `toml:"debug"`
	// Compress is what clients get compressed: a table, or true or false.
	Compress compressionConfig `toml:"compression"`
	// Sites are the virtual hosts.
	Sites []siteConfig `toml:"site"`

	text *settings.File // what was read

	// File is the path of the file, empty if there is none. Dir is its folder, or else the working
	// directory; relative paths in the configuration begin there. Both are absolute.
	File, Dir string

	// Router sends requests to the sites, or, if it is rooted, to the folder of -r.
	Router *handlers.Router
	rooted bool

	// largestBody is the largest max_body_size of a site or a route, in bytes.
	largestBody int64

	// compression is that of all sites that say nothing else.
	compression scope

	// held is how many descriptors the handlers of the routes hold between requests, and heldByLoop
	// how many each loop holds besides.
	held, heldByLoop int

	// names are the paths of files and folders that the settings of handlers have.
	names []string

	// background is what the handlers do besides, see handlers.Env. endBackground ends it, and returns
	// when it has ended; nil: it has not begun.
	background    []func(context.Context)
	endBackground func()

	// observer tells handlers of the server, once that runs. counted says that one of them wants
	// requests to be counted by route, and upstreams are those of all handlers.
	observer  atomic.Pointer[func() (*metrics.Snapshot, error)]
	counted   bool
	upstreams []reporter

	// loops are those of the server that uses this configuration; see handlers.Env.
	loops []*loop.Loop

	// ports are those of its listeners, by their addresses. Until there is a server, and for UNIX
	// sockets, there is none.
	ports map[sockets.Address]int
}

// listenerConfig is a [[listener]].
type listenerConfig struct {
	Table settings.Table `toml:",table"`
	// Name is what sites choose the listener by.
	Name             string `toml:"name"`
	sockets.Endpoint `toml:",inline"`
	TLS              certs.TLS `toml:",inline"`
	// HTTP2 is whether clients may speak HTTP/2 as well: over TLS by ALPN, as they may by default, else
	// with prior knowledge.
	HTTP2 bool `toml:"http2"`

	// TrustedProxies are peers whose forwarding headers are trusted: networks, addresses, and
	// "unix:".
	TrustedProxies []string `toml:"trusted_proxies"`
	// ProxyFields is which header fields they say it in; empty: x-forwarded.
	ProxyFields string `toml:"proxy_fields" oneof:"x-forwarded forwarded"`
	// ProxyProtocol is whether connections begin with a header of the PROXY protocol.
	ProxyProtocol bool `toml:"proxy_protocol"`

	Proxies *conn.Proxies // of the keys above; nil without any that is trusted

	// Of an Embedding.
	streams func(*loop.Thread, *stream.Stream) error
	idle    time.Duration // of streams
}

// tlsConfig is [tls].
type tlsConfig struct {
	// ACME gets certificates from an authority and renews them, for listeners with tls = { acme =
	// true }.
	ACME *certs.ACME `toml:"acme"`
}

// pubsubConfig is [pubsub].
type pubsubConfig struct {
	Table settings.Table `toml:",table"`
	// URL is of a Redis, as in redis://user:password@127.0.0.1:6379/0; rediss:// for TLS.
	URL string `toml:"url"`

	// MaxBytes bounds the messages of all topics together; 64MiB by default.
	MaxBytes handlers.Size `toml:"max_bytes" min:"1MiB" max:"1TiB"`
}

// errorLogConfig is [error_log].
type errorLogConfig struct {
	Table settings.Table `toml:",table"`
	// Format is "text", or "json", an object a line.
	Format string `toml:"format" oneof:"text json" default:"text"`
}

// siteConfig is a [[site]].
type siteConfig struct {
	Table settings.Table `toml:",table"`
	// Hosts are the names that the site answers for, with *.example.org for all below one; without
	// any, all that no other site names.
	Hosts []string `toml:"host"`
	// Names are the names of the listeners at which the site answers; without any, all.
	Names []string `toml:"listener"`
	// Scheme is which requests the site answers; empty: both.
	Scheme string `toml:"scheme" oneof:"http https"`
	// Routes are the routes; the longest prefix wins.
	Routes []routeConfig `toml:"route"`
	// AccessLog is for the site's requests, instead of the server's.
	AccessLog *accesslog.Config `toml:"access_log"`
	HTTPS     https.Settings    `toml:",inline"`
	Around    around            `toml:",inline"`

	Listeners []string // of Names, as conn.Listener has them
}

// routeConfig is a [[site.route]]. All keys but its own belong to its module.
type routeConfig struct {
	// Prefix is the beginning of the paths that the route is for; it ends at a slash.
	Prefix string `toml:"prefix"`
	// Module is what answers; its keys stand beside this one.
	Module string `toml:"module"`
	// Handler is a compiled-in handler that answers, instead of a module.
	Handler string `toml:"handler"`
	// Internal hides the route from clients, which get 404: only an application leads to it, by
	// accel_redirect, or a rule, an error page, or auth.
	Internal bool           `toml:"internal"`
	Around   around         `toml:",inline"`
	Rest     settings.Table `toml:",rest"`
}

// defaults returns the configuration of an empty file.
func defaults() *config { return new(tags.Defaults[config]()) }

// source is where a configuration comes from.
type source struct {
	File    string   // path of the file; empty: none is read
	Listen  []string // addresses that replace those of the file, as -l has them
	Root    string   // a folder to serve, which replaces the sites of the file, as -r has it
	Modules *handlers.Registry
	Routes  []handlers.Route // compiled-in routes, for every site
	Topics  *pubsub.Hub      // what handlers publish and subscribe to; nil: nothing
	Broker  pubsub.Broker    // what [pubsub] url is for; nil: none
	Logger  *slog.Logger     // for modules; never nil
	Places  *places          // the numbers of routes; nil: nothing is counted by route

	Patterns *handlers.Mux       // compiled-in patterns, for every site; nil: none
	Around   handlers.Middleware // the program's own, around every choice of a route; nil: none

	Embedding *Embedding // what the program says in code; nil: nothing

	// Confining says that the process is to be confined, as [confine] says. Made says that a start has
	// made all folders: for -t, when the process is confined.
	Confining, Made bool

	Obtain certs.Options // for tests

	open map[string]sockets.Address // see Embedding.listeners; of a reload
}

// load reads and checks a whole configuration and builds its handlers. An error in the file is a
// settings.Errors with everything that is wrong in it. A panic, such as one of a module's Build,
// becomes an error as well, and its stack is logged: it must not end a server that reads its
// configuration again.
func (s source) load() (c *config, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("panic while the configuration is read", "panic", p, "stack",
				string(debug.Stack()))
			c, err = nil, fmt.Errorf("panic while the configuration is read: %v", p)
		}
	}()
	if s.File == "" {
		return s.parse("", "")
	}
	text, err := confpath.ReadOnce(s.File, confpath.MaxFile)
	if err != nil {
		return nil, err
	}
	return s.parse(s.File, string(text))
}

// parse is load for text that has been read already. Messages show name as it is, and relative
// paths begin in its folder.
func (s source) parse(name, text string) (*config, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c, err := s.decode(wd, name, text)
	if err != nil {
		return nil, err
	}
	if c.Watchdog > 0 && c.Watchdog < time.Millisecond {
		c.Table.Errorf("watchdog", "must be at least 1ms, or 0s, which turns it off")
	}
	c.checkConfine(s)
	if err := s.Embedding.limits(c); err != nil {
		return nil, err
	}
	c.checkHeaders()
	c.checkAccessLogs()
	if s.Embedding != nil && c.ErrorLog.Table.Has("format") {
		c.ErrorLog.Table.Errorf("format", "is for a server that is its process; a program that "+
			"starts a server in code gives it a Logger")
	}
	c.checkPubsub(s.Broker)
	c.checkDebug()
	if c.TLS.ACME != nil {
		c.TLS.ACME.Check(c.Dir, s.Made)
	}
	c.checkListeners(s.Logger)
	if a := c.TLS.ACME; a != nil && len(a.Domains) > 0 && c.acme() == nil {
		a.Table.Errorf("", "no [[listener]] has tls = { acme = true }, and it takes one to obtain "+
			"certificates")
	}
	c.checkSites()
	sites := c.buildSites(s)
	c.checkSpool()
	if err := c.text.Err(); err != nil {
		return nil, err
	}
	if len(s.Listen) > 0 {
		c.Listeners = nil
		for _, l := range s.Listen {
			addr, err := sockets.ParseAddress(l, wd)
			if err != nil {
				return nil, fmt.Errorf("-l: %w", err)
			}
			if slices.ContainsFunc(c.Listeners,
				func(o listenerConfig) bool { return o.Address == addr }) {
				return nil, fmt.Errorf("-l: %s is listened to twice", l)
			}
			c.Listeners = append(c.Listeners, listenerConfig{
				Endpoint: sockets.Endpoint{Listen: l, Address: addr}})
		}
	}
	if err := s.Embedding.listeners(c, wd, s.open); err != nil {
		return nil, err
	}
	if err := c.checkApart(); err != nil {
		return nil, err
	}
	return c, c.route(s, sites)
}

// decode is the part of parse that only reads keys. What is wrong with them is in text.Err. It
// fails if the text is not TOML at all.
func (s source) decode(wd, name, text string) (*config, error) {
	c := defaults()
	c.Dir = wd
	if name != "" {
		c.File = confpath.Join(wd, name)
		c.Dir = filepath.Dir(c.File)
	}
	f := settings.Parse(name, c.Dir, text)
	include(f, name, c.File)
	if f.Broken() {
		return nil, f.Err() // the rest may be missing only because a text is not TOML
	}
	c.text = f
	f.Top(settings.Keys(c))
	f.Root().Decode(c)
	for _, path := range []*string{&c.PIDFile, &c.SpoolDir} {
		if *path != "" {
			*path = confpath.Join(c.Dir, *path)
		}
	}
	if t := c.Confine; t != nil && !t.Table.Has("landlock") {
		t.Landlock = true
	}
	return c, nil
}

// loadForUpgrade is load for -upgrade, which needs pid_file alone. What else is wrong is for the
// new process to say: it may have what this one has not, as $CREDENTIALS_DIRECTORY.
func (s source) loadForUpgrade() (*config, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var text []byte
	if s.File != "" {
		if text, err = confpath.ReadOnce(s.File, confpath.MaxFile); err != nil {
			return nil, err
		}
	}
	c, err := s.decode(wd, s.File, string(text))
	if err != nil {
		return nil, err
	}
	err = c.text.Err()
	var all settings.Errors
	if errors.As(err, &all) && (c.PIDFile == "" || // it may be in a file that cannot be included
		slices.ContainsFunc(all, func(e *settings.Error) bool { return e.Key == "pid_file" })) {
		return nil, err
	}
	return c, nil
}

// defaultListen is where a configuration without a listener listens.
const defaultListen = "*:8080"

func (c *config) checkListeners(log *slog.Logger) {
	if len(c.Listeners) == 0 {
		addr, _ := sockets.ParseAddress(defaultListen, c.Dir)
		c.Listeners = []listenerConfig{{Endpoint: sockets.Endpoint{Listen: defaultListen, Address: addr}}}
		c.Table.Assume("listener", c.Listeners)
		return
	}
	seen, names := map[sockets.Address]bool{}, map[string]bool{}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		switch {
		case l.Name == "" && l.Table.Has("name"):
			l.Table.Errorf("name", "expected a name, by which sites can choose the listener")
		case names[l.Name]:
			l.Table.Errorf("name", "%q: another listener has that name", l.Name)
		}
		names[l.Name] = l.Name != ""
		if !l.Check(c.Dir) {
			continue
		}
		if seen[l.Address] {
			l.Table.Errorf("address", "%s is listened to twice", l.Listen)
			continue
		}
		seen[l.Address] = true
		if !l.Table.Has("http2") {
			l.HTTP2 = len(l.TLS.Files) > 0
		}
		protocols := []string{"http/1.1"}
		if l.HTTP2 {
			protocols = []string{"h2", "http/1.1"}
		}
		l.TLS.Check(c.Dir, c.TLS.ACME, protocols, log)
		l.parseProxies()
	}
}

// certs returns the TLS of all listeners.
func (c *config) certs() (all certs.Set) {
	for i := range c.Listeners {
		all = append(all, &c.Listeners[i].TLS)
	}
	return all
}

// acme returns what certificates are to be obtained for; nil: no listener needs any.
func (c *config) acme() *certs.ACME {
	if c.certs().Obtains() {
		return c.TLS.ACME
	}
	return nil
}

func (c *config) checkPubsub(broker pubsub.Broker) {
	p := &c.Pubsub
	if !p.Table.Has("url") {
		return
	}
	if broker == nil {
		p.Table.Errorf("url", "this program has no broker; it gets one by a call of "+
			"lwango.UseBroker(redis.Broker), of package pubsub/redis")
	} else if err := broker.Check(p.URL); err != nil {
		p.Table.Errorf("url", "%v", err)
	}
}

func (c *config) checkAccessLogs() {
	if c.AccessLog != nil {
		c.AccessLog.Check(c.Dir, nil)
	}
	for _, s := range c.Sites {
		if s.AccessLog != nil {
			s.AccessLog.Check(c.Dir, c.AccessLog)
		}
	}
}

// accessLogs returns the tables [access_log] that are in force.
func (c *config) accessLogs() (all []*accesslog.Config) {
	if c.AccessLog != nil {
		all = append(all, c.AccessLog)
	}
	if c.rooted {
		return all
	}
	for _, s := range c.Sites {
		if s.AccessLog != nil {
			all = append(all, s.AccessLog)
		}
	}
	return all
}

func (c *config) checkHeaders() {
	seen := map[string]bool{}
	at := c.Table.Sub("headers")
	for name, values := range c.Headers {
		lower := strings.ToLower(name)
		err := handlers.CheckField(name, values...)
		switch {
		case err != nil:
			at.Errorf(name, "%v", err)
		case slices.Contains(settings.Keys(c), name):
			// `keep_alive_timeout` below [headers] is a valid field name, but certainly not meant
			// to be one.
			at.Errorf(name, "belongs at the top of the file, above the first [table]")
		case seen[lower]:
			at.Errorf(name, "named twice, in different case")
		}
		seen[lower] = true
	}
}
