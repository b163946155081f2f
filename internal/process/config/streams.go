package config

import (
	"cmp"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/tls/certs"
)

// checkStreams checks the tables [[stream]] and builds their services.
func (c *Config) checkStreams(s Source) {
	hub := cmp.Or(s.Hub, new(tcpproxy.Hub))
	taken := map[string]bool{}
	for _, l := range c.Listeners {
		taken[l.Address.String()] = true
	}
	for i := range c.Streams {
		set := &c.Streams[i]
		if !set.Check(c.Dir) {
			continue
		}
		at := set.Address.String()
		if taken[at] {
			set.Table.Errorf("address", "%s is listened to twice", set.Listen)
			continue
		}
		taken[at] = true
		set.TLS.Check(certs.Context{Dir: c.Dir, ACME: c.TLS.ACME, Reader: c.reader, Log: s.Logger})
		if set.AccessLog != nil && hasKeys(set.Table, set.AccessLog, c.AccessLog) {
			set.AccessLog.CheckStream(c.Dir, c.AccessLog)
		}
		path := func(p string) string {
			p = confpath.Join(c.Dir, p)
			c.HandlerFiles = append(c.HandlerFiles, p)
			return p
		}
		usable := true
		for j := range set.Routes {
			usable = c.useStreamUpstream(&set.Routes[j]) && usable
		}
		if !usable {
			continue
		}
		// A connection has two descriptors; its pipes count for the process.
		share := sysio.DescriptorLimit() / 8 / len(c.Streams)
		b := hub.Build(set, c.Dir, path, share, s.Logger)
		c.Descriptors += 2*set.MaxConnections + b.Checks()
		c.services = append(c.services, b)
	}
}

// serveStreams adds the listeners and the background goroutines of the streams.
func (c *Config) serveStreams() {
	for i, b := range c.services {
		set := b.Settings()
		c.Listeners = append(c.Listeners, Listener{Table: set.Table, Endpoint: set.Endpoint, TLS: set.TLS,
			Stream: c.services[i]})
		c.Background = append(c.Background, b.Watch)
		b.Upstreams(func(route string, u metrics.Upstreams) {
			name := RouteName{Site: "stream " + set.Address.String(), Route: route}
			c.Upstreams = append(c.Upstreams, Upstreams{name, u})
		})
	}
}

// StreamReports describes the connections of the streams.
func (c *Config) StreamReports() func() []metrics.Stream {
	services := c.services
	return func() (all []metrics.Stream) {
		for _, b := range services {
			all = append(all, b.Report())
		}
		return all
	}
}
