package config

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
)

// RouteName is how a route is called where its requests are counted.
type RouteName struct{ Site, Route string }

// Counters numbers the routes of a program, see conn.RequestLayer.SetCounter. A route keeps its
// number over reloads, so that its counters go on. Any goroutine may call the methods.
type Counters struct {
	mu      sync.Mutex
	numbers map[RouteName]uint32
	names   []RouteName // by number
	counted []counted   // in the order in which configurations have named them
}

// counted is what a handler of a route counts of itself.
type counted struct {
	RouteName
	kind   *metrics.Kind
	of     string
	counts []atomic.Int64
}

// counts returns the numbers of a handler. Of more than maxCounters handlers, the last ones are not
// reported, and their numbers end with their configuration.
func (p *Counters) counts(n RouteName, k *metrics.Kind, of string) []atomic.Int64 {
	if p == nil {
		return k.New()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.counted {
		if c.RouteName == n && c.kind == k && c.of == of {
			return c.counts
		}
	}
	c := counted{n, k, of, k.New()}
	if len(p.counted) < maxCounters {
		p.counted = append(p.counted, c)
	}
	return c.counts
}

// Counted returns what handlers have counted of themselves; a nil p has nothing.
func (p *Counters) Counted() []metrics.Counted {
	all := []metrics.Counted{}
	if p == nil {
		return all
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.counted {
		all = append(all, c.kind.Read(c.Site, c.Route, c.of, c.counts))
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
