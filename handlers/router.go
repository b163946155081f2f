package handlers

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lwango/lwango/conn"
)

// Site is a virtual host: its names and its routes.
type Site struct {
	// Hosts are names ("example.org"), wildcards ("*.example.org": one label or more in front) and
	// IP addresses, without a port. A site without any is the default site, which answers for every
	// host that no other site names.
	Hosts []string

	// Routes are tried by the length of their prefix, whatever their order here.
	Routes []Route

	// Around wraps the choice of the route, for all requests of the site; nil: nothing does.
	Around Middleware
}

// Route is one path prefix of a site.
type Route struct {
	// Prefix begins with a slash and is compared with the decoded, cleaned path of a request, at
	// segment boundaries: "/hello" stands for /hello and everything below /hello/, never for
	// /helloworld. A slash at its end makes no difference.
	Prefix string

	Handler conn.Handler
}

// RouteError says which entry of NewRouter's argument is wrong, by index, so that the configuration
// can point at its line.
type RouteError struct {
	Site  int    // index of the site
	Route int    // index of the route in it; -1 if the site itself is wrong
	Key   string // "host", "prefix" or "handler", as the configuration calls it
	Err   error  // what is wrong, without the key's name
}

// Error gives the place, counted from 1, and the cause.
func (e *RouteError) Error() string {
	if e.Route < 0 {
		return fmt.Sprintf("site %d: %s: %v", e.Site+1, e.Key, e.Err)
	}
	return fmt.Sprintf("site %d, route %d: %s: %v", e.Site+1, e.Route+1, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *RouteError) Unwrap() error { return e.Err }

// Router sends requests to handlers. It does not change after NewRouter; any number of loops may
// use it at once.
type Router struct {
	hosts hostTable
}

// target is where a route leads: its handler, and the prefix without a slash at its end ("" for the
// whole site).
type target struct {
	prefix  string
	handler conn.Handler
	index   int // of the route in its site
}

// NewRouter builds a router of sites. The default site is the one without hosts, or the first if
// all have some; a host that is named twice, a second site without hosts, and a prefix that occurs
// twice in a site are errors, because no request would ever reach one of the two. Errors are
// *RouteError. A router without sites answers every request with 404.
func NewRouter(sites []Site) (*Router, error) {
	r := new(Router)
	defaultSite := -1
	for i, s := range sites {
		to := &site{index: i}
		for j, route := range s.Routes {
			if route.Handler == nil {
				return nil, &RouteError{Site: i, Route: j, Key: "handler",
					Err: errors.New("missing")}
			}
			if err := to.routes.add(route.Prefix, route.Handler); err != nil {
				return nil, &RouteError{Site: i, Route: j, Key: "prefix", Err: err}
			}
			to.routes.find([]byte(route.Prefix)).index = j
		}
		if to.handler = to.serve; s.Around != nil {
			to.handler = s.Around(to.serve)
		}
		for _, host := range s.Hosts {
			if err := r.hosts.add(host, to); err != nil {
				return nil, &RouteError{Site: i, Route: -1, Key: "host", Err: err}
			}
		}
		switch {
		case len(s.Hosts) > 0:
			if r.hosts.other == nil {
				r.hosts.other = to
			}
		case defaultSite >= 0:
			return nil, &RouteError{Site: i, Route: -1, Key: "host",
				Err: fmt.Errorf(
					"missing, and site %d has none either: only one site can be the default",
					defaultSite+1)}
		default:
			defaultSite = i
			r.hosts.other = to
		}
	}
	return r, nil
}

// Serve hands req to the handler of the longest prefix that matches, or answers 404. It is a
// conn.Handler, and allocates nothing.
func (r *Router) Serve(req *conn.Request, resp *conn.Response) int {
	to := r.hosts.find(req.HostView())
	if to == nil {
		return http.StatusNotFound
	}
	return to.handler(req, resp)
}

// Place says where a request for that host and that cleaned path goes: the index of the site in
// NewRouter's argument, and that of the route in the site; -1 where there is none.
func (r *Router) Place(host, path string) (site, route int) {
	to := r.hosts.find([]byte(host))
	if to == nil {
		return -1, -1
	}
	if t := to.routes.find([]byte(path)); t != nil {
		return to.index, t.index
	}
	return to.index, -1
}

// site is a Site made ready.
type site struct {
	index   int
	routes  prefixTree
	handler conn.Handler // serve, and what is around it
}

// Again is the status of a route's handler that has rewritten the request (conn.Request.Rewrite):
// the route for the new path is chosen, among those of the same site. What wraps the first route's
// handler returns the status as it is; the hooks that it has set are dropped.
const Again = -1

func (s *site) serve(req *conn.Request, resp *conn.Response) int {
	for {
		t := s.routes.find(req.PathView())
		if t == nil {
			return http.StatusNotFound
		}
		req.SetPrefix(t.prefix)
		hooks, rewrites := resp.Hooks(), req.Rewrites()
		status := t.handler(req, resp)
		if status != Again || req.Rewrites() == rewrites {
			return status
		}
		resp.DropHooks(hooks)
	}
}
