package config

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
)

// RouteName names a route in counts of requests.
type RouteName struct{ Site, Route string }

// Counters numbers the routes of a program, see conn.RequestLayer.SetCounter. A route keeps its
// number over reloads, so that its counters go on. Any goroutine may call the methods.
type Counters struct {
	mu      sync.Mutex
	numbers map[RouteName]uint32
	names   []RouteName // by number
	counted []counted   // in the order of their first configuration
}

// counted has the counts of a handler of a route.
type counted struct {
	RouteName
	kind   *metrics.Kind
	of     string
	counts []atomic.Int64
}

// counts returns the counts of a handler. Of more than maxCounters handlers, the last ones are not
// reported, and their counts end with their configuration.
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

// Counted returns the counts of all handlers. p may be nil.
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

// maxCounters bounds the counts while reloads name ever new routes. otherCounter is the number of
// the routes beyond it.
const (
	maxCounters  = 1000
	otherCounter = 1
)

// number returns the number of a route. A nil p returns 0.
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

// Name returns the names of the route of a number, "" where there is none. It may be called on any
// goroutine; a nil p has no names.
func (p *Counters) Name(counter uint32) (site, route string) {
	if p == nil {
		return "", ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(counter) >= len(p.names) {
		return "", ""
	}
	n := p.names[counter]
	return n.Site, n.Route
}

// numberRoutes gives the routes of a site their numbers, and returns that of the site itself.
func (p *Counters) numberRoutes(hosts []string, routes []handlers.Route) uint32 {
	name := siteName(hosts)
	for i := range routes {
		routes[i].Counter = p.number(RouteName{name, routes[i].Name()})
	}
	return p.number(RouteName{Site: name})
}

// siteName names a site with these hosts in counts of requests.
func siteName(hosts []string) string {
	if len(hosts) == 0 {
		return "*"
	}
	return hosts[0]
}

// Upstreams reports the upstreams of a route.
type Upstreams struct {
	RouteName
	metrics.Upstreams
}

// Observe sets the function by which handlers see the running server.
func (c *Config) Observe(f func() (*metrics.Snapshot, error)) { c.observer.Store(&f) }

// Stop tells the handlers that the server has been told to stop.
func (c *Config) Stop() { c.stopping.Store(true) }

// snapshot asks the server for the content of the module status.
func (c *Config) snapshot() (*metrics.Snapshot, error) {
	if f := c.observer.Load(); f != nil {
		return (*f)()
	}
	return nil, errors.New("the server does not run yet")
}
