package config

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/pubsub"
)

// DefaultListen is where a configuration without a listener listens.
const DefaultListen = "*:8080"

func (c *Config) checkListeners(s Source) {
	if len(c.Listeners) == 0 && len(c.Streams) > 0 && len(c.Sites) == 0 && s.Root == "" {
		return // nothing is there for clients of HTTP
	}
	if len(c.Listeners) == 0 {
		addr, _ := sockets.ParseAddress(DefaultListen, c.Dir)
		c.Listeners = []Listener{{Endpoint: sockets.Endpoint{Listen: DefaultListen, Address: addr}}}
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
			l.HTTP2 = l.TLS.On()
			l.Table.Assume("http2", l.HTTP2)
		}
		l.parseProxies(l.Table.Errorf)
	}
}

// checkACME checks acme of [tls], and adds the domains of sites. inFile says that it is the file's.
func (c *Config) checkACME(s Source, inFile bool) {
	obtains := false
	for i := range c.Sites {
		c.Sites[i].TLS.Complete(c.Sites[i].Hosts)
		obtains = obtains || c.Sites[i].TLS.Obtains()
	}
	a := c.TLS.ACME
	if a == nil {
		return
	}
	if inFile {
		a.Records = s.DNS
		a.Check(c.Dir, s.FoldersMade, obtains)
	}
	for i := range c.Sites {
		a.Add(&c.Sites[i].TLS)
	}
	if a.Table.Has("storage") {
		storer, ok := s.Broker.(pubsub.Storer)
		if err := checkBroker(s.Broker, a.Storage); err != nil {
			a.Table.Errorf("storage", "%v", err)
		} else if !ok {
			a.Table.Errorf("storage", "the broker of this program keeps no values")
		} else {
			a.OpenStorage = func() (certs.Storage, error) { return storer.Storage(a.Storage) }
		}
	}
}

// checkTLS reads the certificates of sites and listeners.
func (c *Config) checkTLS(s Source) {
	context := certs.Context{Dir: c.Dir, ACME: c.TLS.ACME, Reader: c.reader, Log: s.Logger}
	for i := range c.Sites {
		c.Sites[i].checkTLS(c, context)
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		context.Protocols = []string{"http/1.1"}
		if l.HTTP2 {
			context.Protocols = []string{"h2", "http/1.1"}
		}
		context.Sites = c.sitesAt(*l)
		l.TLS.Check(context)
	}
}

// sitesAt returns the sites that answer requests of https at a listener.
func (c *Config) sitesAt(l Listener) certs.Sites {
	name := l.Address.ListenerName()
	all := make([]*certs.Site, len(c.Sites))
	for i := range c.Sites {
		if site := &c.Sites[i]; site.at(l) && site.Scheme != "http" {
			all[i] = &site.TLS
		}
	}
	return certs.Sites{All: all, Of: func(host string) int {
		if c.servesRoot {
			return -1
		}
		return c.Router.Site(name, host)
	}}
}

// checkTLS reads the site's certificates. It refuses those that no handshake would use.
func (site *Site) checkTLS(c *Config, context certs.Context) {
	if key := site.TLS.Needs(); key != "" {
		switch {
		case site.Scheme == "http":
			site.Table.Errorf(key, `has no effect beside scheme = "http"`)
			return
		case !slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.TLS.On() && site.at(l) }):
			site.Table.Errorf(key, "no listener of the site has tls; expected tls = true at one of "+
				"them, which then speaks TLS with the certificates of its sites")
			return
		}
	}
	site.TLS.Check(context)
}

// checkObtains reports an acme by which no listener would get a certificate, and challenges that no
// listener answers.
func (c *Config) checkObtains(s Source) {
	a := c.TLS.ACME
	if a == nil || len(a.Domains) == 0 {
		return
	}
	if c.ACME() != nil {
		clear, at80 := false, false
		for _, l := range c.Listeners {
			if !l.TLS.On() && l.TLS.Config == nil && l.Streams == nil && l.Stream == nil {
				clear, at80 = true, at80 || l.Address.Port() == 80
			}
		}
		c.acmeWarning = a.Clear(clear, at80)
		if a.DNS != nil && len(a.DNS.Command) > 0 && !c.Confine.Executes() {
			a.DNS.Table.Errorf("command", "[confine] keeps the server from executing a program")
		}
		return
	}
	no := "no [[listener]] has tls = { acme = true }"
	if s.replacesListeners() {
		no = "no Listener has ACME"
	}
	a.Table.Errorf("", "%s, and it takes one to obtain certificates", no)
}

// Certs returns the TLS of all listeners.
func (c *Config) Certs() (all certs.Set) {
	for i := range c.Listeners {
		all = append(all, &c.Listeners[i].TLS)
	}
	return all
}

// ACMEWarning says what the environment of the server must do so that certificates can be obtained;
// "": nothing.
func (c *Config) ACMEWarning() string { return c.acmeWarning }

// ACME returns the settings by which certificates are obtained; nil: no listener needs any.
func (c *Config) ACME() *certs.ACME {
	if c.Certs().Obtains() {
		return c.TLS.ACME
	}
	return nil
}

func (c *Config) checkPubsub(broker pubsub.Broker) {
	p := &c.Pubsub
	if !p.Table.Has("url") {
		return
	}
	if err := checkBroker(broker, p.URL); err != nil {
		p.Table.Errorf("url", "%v", err)
	}
}

func checkBroker(broker pubsub.Broker, url string) error {
	if broker == nil {
		return errors.New("this program has no broker; it gets one by a call of " +
			"lwango.UseBroker(redis.Broker), of package pubsub/redis")
	}
	return broker.Check(url)
}

// checkMaps makes the maps, and reports their errors at their keys.
func (c *Config) checkMaps() {
	all := make([]placeholder.Settings, len(c.Maps))
	for i := range c.Maps {
		all[i] = c.Maps[i].Settings
	}
	var err error
	c.values, err = placeholder.NewMaps(all, accesslog.Names())
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return
	}
	for _, err := range joined.Unwrap() {
		if e, ok := errors.AsType[*placeholder.Error](err); ok {
			at, key := c.Maps[e.Map].Table, e.Key
			if table, name, ok := strings.Cut(key, "."); ok {
				at, key = at.Sub(table), name
			}
			at.Errorf(key, "map %s: %v", c.Maps[e.Map].Name, e.Err)
		}
	}
}

func (c *Config) checkAccessLogs() {
	// of checks a log within outer, which stands in t, and returns the one that is in force there.
	of := func(t settings.Table, a, outer *accesslog.Config) *accesslog.Config {
		if a == nil {
			return outer
		}
		if hasKeys(t, a, outer) {
			a.Check(c.Dir, outer, c.values)
		}
		return a
	}
	all := of(c.Table, c.AccessLog, nil)
	for _, s := range c.Sites {
		own := of(s.Table, s.AccessLog, all)
		for _, r := range s.Routes {
			of(r.Rest, r.AccessLog, own)
		}
	}
}

// hasKeys reports whether a, of the table t, has any keys, and if not so, reports an error: it is
// true where no outer log has any.
func hasKeys(t settings.Table, a, outer *accesslog.Config) bool {
	if a.On != nil && *a.On && (outer == nil || outer.Off()) {
		t.Errorf("access_log", "true stands for the keys of the log further out, and there is none; "+
			"expected a table, or false")
		return false
	}
	return true
}

// AccessLogs returns the tables [access_log] that are in force.
func (c *Config) AccessLogs() (all []*accesslog.Config) {
	if c.AccessLog != nil {
		all = append(all, c.AccessLog)
	}
	if c.servesRoot {
		return all
	}
	for _, s := range c.Sites {
		if s.AccessLog != nil {
			all = append(all, s.AccessLog)
		}
		for _, r := range s.Routes {
			if r.AccessLog != nil {
				all = append(all, r.AccessLog)
			}
		}
	}
	for i := range c.Streams {
		if log := c.Streams[i].AccessLog; log != nil {
			all = append(all, log)
		}
	}
	return all
}

func (c *Config) checkHeaders() {
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

// checkSpool checks that files can be made in spool_dir, and that max_spool has room for a body. It
// lets -T show defaults that depend on other limits, except those that depend on the number of
// descriptors.
func (c *Config) checkSpool() {
	largest := max(c.MaxBodySize, conn.Size(c.LargestBody))
	if c.MaxSpool > 0 && c.MaxSpool < largest {
		c.Table.Errorf("max_spool",
			"must be at least max_body_size, which is %v, or -1, for no limit; found %v",
			largest, c.MaxSpool)
	}
	full := c.Limits.Complete(c.LargestBody, 0)
	c.Table.Assume("max_spool", full.MaxSpool)
	if c.MaxConnections > 0 {
		c.Table.Assume("max_connections_per_address", full.MaxConnectionsPerAddress)
	}
	if c.SpoolDir != "" {
		if err := sysio.CheckTempDir(c.SpoolDir); err != nil {
			c.Table.Errorf("spool_dir", "%v", err)
		}
	}
}

// OpenCache opens the store of answers if routes of c keep some, or changes its options, or closes
// it. It is called before any handler of c: an answer on disk would outlast a request that
// invalidates it while the store is closed. before is the configuration in force, or nil. OpenCache
// waits for the disk.
func (c *Config) OpenCache(before *Config) {
	if !c.caches && before != nil {
		before.CloseCache()
	}
	if c.caches && c.store != nil {
		if before != nil && !before.caches {
			c.store.Missed()
		}
		if err := c.store.Configure(c.cacheOptions()); err != nil {
			c.logger.Error("cache: the folder cannot be used", "error", err)
			o := c.cacheOptions()
			o.Folder = ""
			_ = c.store.Configure(o)
		}
	}
}

// Begin starts the background goroutines of the handlers of c.
func (c *Config) Begin() {
	c.limits.Use()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, f := range c.Background {
		running.Go(func() { f(ctx) })
	}
	c.End = func() { cancel(); running.Wait() }
}
