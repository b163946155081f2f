package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/https"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/server/settings"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)

// config is a checked configuration, with what follows from it. The `toml` tags are the keys of the
// file; the fields without one are computed by load.
type config struct {
	Table settings.Table `toml:",table"`

	Include []string `toml:"include"` // see include

	// Limits of a connection and of the whole server. The upper ends of the ranges only catch
	// typing errors.
	KeepAliveTimeout time.Duration `toml:"keep_alive_timeout" min:"1ms" max:"24h"`
	HeaderTimeout    time.Duration `toml:"header_timeout" min:"1ms" max:"24h"`
	BodyTimeout      time.Duration `toml:"body_timeout" min:"1ms" max:"24h"`
	WriteTimeout     time.Duration `toml:"write_timeout" min:"1ms" max:"24h"`
	MinRate          int           `toml:"min_rate" min:"0" max:"1000000000"`
	MaxConnections   int           `toml:"max_connections" min:"0" max:"100000000"`
	MaxPerAddress    int           `toml:"max_connections_per_address" min:"0" max:"100000000"`
	MaxHeaderSize    handlers.Size `toml:"max_header_size" min:"1KiB" max:"16MiB"`
	MaxBodySize      handlers.Size `toml:"max_body_size" min:"1B" max:"1TiB"`
	MaxSpool         handlers.Size `toml:"max_spool" min:"0B" max:"1024TiB"`
	SpoolDir         string        `toml:"spool_dir"`

	// Process.
	Grace    time.Duration `toml:"grace" min:"0s" max:"24h"`
	Drain    time.Duration `toml:"drain" min:"0s" max:"24h"`
	PIDFile  string        `toml:"pid_file"`
	Watchdog time.Duration `toml:"watchdog" min:"0s" max:"1h"`
	Threads  int           `toml:"threads" min:"0" max:"1024"`
	Workers  int           `toml:"workers" min:"1" max:"100000"` // of each loop
	Handoff  string        `toml:"handoff" oneof:"channel direct"`

	Headers   map[string][]string `toml:"headers"`
	Listeners []listenerConfig    `toml:"listener"`
	AccessLog *accessLogConfig    `toml:"access_log"`
	Confine   *confineConfig      `toml:"confine"`
	Pubsub    pubsubConfig        `toml:"pubsub"`
	Compress  compressionConfig   `toml:"compression"`
	Sites     []siteConfig        `toml:"site"`

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

	// loops are those of the server that uses this configuration; see handlers.Env.
	loops []*loop.Loop

	// ports are those of its listeners, by their addresses. Until there is a server, and for UNIX
	// sockets, there is none.
	ports map[address]int
}

// listenerConfig is a [[listener]].
type listenerConfig struct {
	Table  settings.Table `toml:",table"`
	Name   string         `toml:"name"`
	Listen string         `toml:"address"`
	Certs  []certConfig   `toml:"tls"`
	MinTLS string         `toml:"min_version" oneof:"1.2 1.3"`
	CAs    string         `toml:"client_ca"`
	Strict bool           `toml:"strict_sni"`
	Mode   string         `toml:"mode"`
	Owner  string         `toml:"owner"`

	TrustedProxies []string `toml:"trusted_proxies"`
	ProxyFields    string   `toml:"proxy_fields" oneof:"x-forwarded forwarded"`
	ProxyProtocol  bool     `toml:"proxy_protocol"`

	Address address       // of Listen
	TLS     *tls.Config   // of the keys above, or of an Embedding; nil without any
	Pairs   []pair        // of Certs
	Access  access        // of Mode and Owner
	Proxies *conn.Proxies // of the keys above; nil without any that is trusted

	// Of an Embedding.
	socket  net.Listener // listens already; nil: the server makes the sockets
	streams func(*loop.Thread, *stream.Stream) error
	idle    time.Duration // of streams
}

// pubsubConfig is [pubsub].
type pubsubConfig struct {
	Table settings.Table `toml:",table"`
	URL   string         `toml:"url"` // of a Redis; it may have a password

	// MaxBytes bounds the messages of all topics together; 0: the hub's default, 64 MiB.
	MaxBytes handlers.Size `toml:"max_bytes" min:"1MiB" max:"1TiB"`
}

// siteConfig is a [[site]].
type siteConfig struct {
	Table     settings.Table   `toml:",table"`
	Hosts     []string         `toml:"host"`
	Names     []string         `toml:"listener"` // of listeners
	Scheme    string           `toml:"scheme" oneof:"http https"`
	Routes    []routeConfig    `toml:"route"`
	AccessLog *accessLogConfig `toml:"access_log"`
	HTTPS     https.Settings   `toml:",inline"`
	Around    around           `toml:",inline"`

	Listeners []string // of Names, as conn.Listener has them
}

// routeConfig is a [[site.route]]. All keys but its own belong to its module.
type routeConfig struct {
	Prefix  string         `toml:"prefix"`
	Module  string         `toml:"module"`
	Handler string         `toml:"handler"`
	Around  around         `toml:",inline"`
	Rest    settings.Table `toml:",rest"`
}

// defaults returns the configuration of an empty file.
func defaults() *config {
	return &config{
		KeepAliveTimeout: conn.DefaultKeepAliveTimeout,
		HeaderTimeout:    conn.DefaultHeaderTimeout,
		BodyTimeout:      conn.DefaultBodyTimeout,
		WriteTimeout:     conn.DefaultWriteTimeout,
		MinRate:          conn.DefaultMinRate,
		MaxHeaderSize:    conn.DefaultMaxHeaderSize,
		MaxBodySize:      conn.DefaultMaxBodySize,
		Grace:            5 * time.Second,
		Drain:            time.Minute,
		Watchdog:         100 * time.Millisecond,
		Workers:          loop.DefaultWorkers,
		Handoff:          coro.Direct.String(),
	}
}

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

	Patterns *handlers.Mux       // compiled-in patterns, for every site; nil: none
	Around   handlers.Middleware // the program's own, around every choice of a route; nil: none

	Embedding *Embedding // what the program says in code; nil: nothing

	jail *jail // of the process, for [confine]; nil: that is only checked

	open map[string]address // see Embedding.listeners; of a reload

	handed *handover // of the process before, at the start of the one behind it; nil: none
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
	file := s.File
	if s.jail != nil && s.jail.file != "" {
		file = s.jail.file
	}
	text, err := os.ReadFile(file)
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
	c := defaults()
	c.Dir = wd
	if name != "" {
		c.File = confpath.Join(wd, name)
		if s.jail != nil && s.jail.file != "" {
			c.File = s.jail.file
		}
		c.Dir = filepath.Dir(c.File)
	}

	f := settings.Parse(name, text)
	include(f, name, c.File)
	if f.Broken() {
		return nil, f.Err() // the rest may be missing only because a text is not TOML
	}
	c.text = f
	f.Top(settings.Keys(c))
	f.Root().Decode(c)
	if c.Watchdog > 0 && c.Watchdog < time.Millisecond {
		c.Table.Errorf("watchdog", "must be at least 1ms, or 0s, which turns it off")
	}
	if c.checkConfine(s) {
		return s.load() // now from within
	}
	if err := s.Embedding.limits(c); err != nil {
		return nil, err
	}
	c.checkHeaders()
	c.checkAccessLogs()
	c.checkPubsub(s.Broker)
	c.checkListeners()
	c.checkSites()
	if c.PIDFile != "" {
		c.PIDFile = confpath.Join(c.Dir, c.PIDFile)
	}
	sites := c.buildSites(s)
	c.checkSpool()
	if err := f.Err(); err != nil {
		return nil, err
	}
	if len(s.Listen) > 0 {
		c.Listeners = nil
		for _, l := range s.Listen {
			addr, err := parseAddress(l, wd)
			if err != nil {
				return nil, fmt.Errorf("-l: %w", err)
			}
			if slices.ContainsFunc(c.Listeners,
				func(o listenerConfig) bool { return o.Address == addr }) {
				return nil, fmt.Errorf("-l: %s is listened to twice", l)
			}
			c.Listeners = append(c.Listeners, listenerConfig{Listen: l, Address: addr})
		}
	}
	if err := s.Embedding.listeners(c, wd, s.open); err != nil {
		return nil, err
	}
	return c, c.route(s, sites)
}

// defaultListen is where a configuration without a listener listens.
const defaultListen = "*:8080"

func (c *config) checkListeners() {
	if len(c.Listeners) == 0 {
		addr, _ := parseAddress(defaultListen, c.Dir)
		c.Listeners = []listenerConfig{{Listen: defaultListen, Address: addr}}
		c.Table.Assume("listener", c.Listeners)
		return
	}
	seen, names := map[address]bool{}, map[string]bool{}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		switch {
		case l.Name == "" && l.Table.Has("name"):
			l.Table.Errorf("name", "expected a name, by which sites can choose the listener")
		case names[l.Name]:
			l.Table.Errorf("name", "%q: another listener has that name", l.Name)
		}
		names[l.Name] = l.Name != ""
		if l.Listen == "" {
			l.Table.Errorf("address", `missing; expected something like "*:8080"`)
			continue
		}
		addr, err := parseAddress(l.Listen, c.Dir)
		if err != nil {
			l.Table.Errorf("address", "%v", err)
			continue
		}
		if seen[addr] {
			l.Table.Errorf("address", "%s is listened to twice", l.Listen)
			continue
		}
		seen[addr] = true
		l.Address = addr
		c.checkTLS(l)
		l.parseAccess()
		l.parseProxies()
	}
}

// leastSpool is the least that max_spool is by default.
const leastSpool = 4 << 30

// checkSpool checks that files can be made in spool_dir, and that max_spool has room for a body.
func (c *config) checkSpool() {
	largest := max(c.MaxBodySize, handlers.Size(c.largestBody))
	switch {
	case !c.Table.Has("max_spool"):
		c.MaxSpool = max(leastSpool, 4*largest)
		c.Table.Assume("max_spool", c.MaxSpool)
	case c.MaxSpool > 0 && c.MaxSpool < largest:
		c.Table.Errorf("max_spool",
			"must be at least max_body_size, which is %v, or 0, for no limit; found %v",
			largest, c.MaxSpool)
	}
	if c.SpoolDir == "" {
		return
	}
	c.SpoolDir = confpath.Join(c.Dir, c.SpoolDir)
	if err := sysio.CheckTempDir(c.SpoolDir); err != nil {
		c.Table.Errorf("spool_dir", "%v", err)
	}
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
