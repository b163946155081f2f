package server

import (
	"errors"
	"slices"
	"sync"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/metrics"
)

// routeName is how a route is called where its requests are counted.
type routeName struct{ site, route string }

// places numbers the routes of a program, for conn.Request.SetPlace. A route keeps its number over
// reloads, so that its counters go on. Any goroutine may call the methods.
type places struct {
	mu      sync.Mutex
	numbers map[routeName]uint32
	names   []routeName // by number
}

// maxPlaces bounds what is counted where reloads name ever new routes; otherPlace is the number of
// those beyond it.
const (
	maxPlaces  = 1000
	otherPlace = 1
)

// number returns that of a route. A nil p has no numbers but 0.
func (p *places) number(n routeName) uint32 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers == nil {
		p.numbers = map[routeName]uint32{}
		p.names = []routeName{{}, otherPlace: {site: "(other)"}}
	}
	i, ok := p.numbers[n]
	if !ok {
		if i = uint32(len(p.names)); len(p.names) >= maxPlaces {
			return otherPlace
		}
		p.numbers[n], p.names = i, append(p.names, n)
	}
	return i
}

// all returns the names by number; a nil p has none.
func (p *places) all() []routeName {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.names)
}

// numberRoutes gives the routes of a site their numbers, and returns that of the site itself.
func (p *places) numberRoutes(hosts []string, routes []handlers.Route) uint32 {
	name := siteName(hosts)
	for i := range routes {
		routes[i].Place = p.number(routeName{name, routes[i].Prefix})
	}
	return p.number(routeName{site: name})
}

// siteName is how a site with these hosts is called where its requests are counted.
func siteName(hosts []string) string {
	if len(hosts) == 0 {
		return "*"
	}
	return hosts[0]
}

// reporter tells of the upstreams of a route.
type reporter struct {
	routeName
	report func() []metrics.Upstream
}

// snapshot asks the server for what the module status shows.
func (c *config) snapshot() (*metrics.Snapshot, error) {
	if f := c.observer.Load(); f != nil {
		return (*f)()
	}
	return nil, errors.New("the server does not run yet")
}
