package config

import (
	"errors"
	"slices"
	"sync"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/metrics"
)

// RouteName is how a route is called where its requests are counted.
type RouteName struct{ Site, Route string }

// Counters numbers the routes of a program, see conn.RequestLayer.SetCounter. A route keeps its
// number over reloads, so that its counters go on. Any goroutine may call the methods.
type Counters struct {
	mu      sync.Mutex
	numbers map[RouteName]uint32
	names   []RouteName // by number
	mirrors []copies    // in the order in which configurations have named them
}

// copies is what counts the copies of requests of a site or a route.
type copies struct {
	RouteName
	to string
	*metrics.Mirror
}

// mirror returns that of a route, by the path that copies go to. Of more than maxCounters, the last
// ones are not reported, and end with their configuration.
func (p *Counters) mirror(n RouteName, to string) *metrics.Mirror {
	if p == nil {
		return new(metrics.Mirror)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mirrors {
		if m.RouteName == n && m.to == to {
			return m.Mirror
		}
	}
	m := copies{n, to, new(metrics.Mirror)}
	if len(p.mirrors) < maxCounters {
		p.mirrors = append(p.mirrors, m)
	}
	return m.Mirror
}

// Mirrors returns what the mirrors have counted; a nil p has none.
func (p *Counters) Mirrors() (all []metrics.Mirrored) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mirrors {
		all = append(all, metrics.Mirrored{Site: m.Site, Route: m.Route, To: m.to, Active: m.Active.Load(),
			Requests: m.Requests.Load(), Failed: m.Failed.Load(), Busy: m.Busy.Load(), Bodies: m.Bodies.Load()})
	}
	return all
}

// maxCounters bounds what is counted where reloads name ever new routes; otherCounter is the number
// of those beyond it.
const (
	maxCounters  = 1000
	otherCounter = 1
)

// number returns that of a route. A nil p has no numbers but 0.
func (p *Counters) number(n RouteName) uint32 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers == nil {
		p.numbers = map[RouteName]uint32{}
		p.names = []RouteName{{}, otherCounter: {Site: "(other)"}}
	}
	i, ok := p.numbers[n]
	if !ok {
		if i = uint32(len(p.names)); len(p.names) >= maxCounters {
			return otherCounter
		}
		p.numbers[n], p.names = i, append(p.names, n)
	}
	return i
}

// Names returns the names by number; a nil p has none.
func (p *Counters) Names() []RouteName {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.names)
}

// numberRoutes gives the routes of a site their numbers, and returns that of the site itself.
func (p *Counters) numberRoutes(hosts []string, routes []handlers.Route) uint32 {
	name := siteName(hosts)
	for i := range routes {
		routes[i].Counter = p.number(RouteName{name, routes[i].Prefix})
	}
	return p.number(RouteName{Site: name})
}

// siteName is how a site with these hosts is called where its requests are counted.
func siteName(hosts []string) string {
	if len(hosts) == 0 {
		return "*"
	}
	return hosts[0]
}

// Upstreams tells of the upstreams of a route.
type Upstreams struct {
	RouteName
	metrics.Upstreams
}

// observe lets f tell handlers of the server, which runs now.
func (c *Config) Observe(f func() (*metrics.Snapshot, error)) { c.observer.Store(&f) }

// snapshot asks the server for what the module status shows.
func (c *Config) snapshot() (*metrics.Snapshot, error) {
	if f := c.observer.Load(); f != nil {
		return (*f)()
	}
	return nil, errors.New("the server does not run yet")
}
