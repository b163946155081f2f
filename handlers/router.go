package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/route"
)

// Site is a virtual host: its names and its routes.
type Site struct {
	// Hosts are names ("example.org"), wildcards ("*.example.org": one label or more in front) and
	// IP addresses, without a port. A site without any is the default site, which answers for every
	// host that no other site names.
	Hosts []string

	// Listeners are the names (conn.Listener) of the listeners at which the site answers; none: it
	// answers at all of them.
	Listeners []string

	// Scheme is "http" or "https" if the site answers only requests of that scheme
	// (Request.Secure), and empty if it answers both.
	Scheme string

	// Routes are tried by the length of their prefix, whatever their order here.
	Routes []Route

	// Patterns are handlers of the program, beside the routes; nil: there are none. Where a pattern
	// and a route match a request, the longer one answers: a pattern counts with its path up to the
	// first wildcard, and before a route of the same length that is not Exact. A pattern with a host
	// comes before all routes.
	Patterns *Mux

	// Around wraps the choice of the route, for all requests of the site; nil: nothing does.
	Around Middleware

	// Counter counts the requests that no route answers, see conn.RequestLayer.SetCounter.
	Counter uint32
}

// Route is one path prefix of a site.
type Route struct {
	// Prefix begins with a slash and is compared with the decoded, cleaned path of a request, at
	// segment boundaries: "/hello" stands for /hello and everything below /hello/, never for
	// /helloworld. A slash at its end makes no difference.
	Prefix string

	// Exact says that the route is for the path Prefix alone, where a slash at the end makes a
	// difference. It goes before all others, and before patterns without a host.
	Exact bool

	// Regexp must match the decoded, cleaned path of a request below Prefix; nil: the route is for all
	// of them. Routes with one go before others without, in their order.
	Regexp *regexp.Regexp

	Handler conn.Handler

	// Counter counts the requests, see conn.RequestLayer.SetCounter.
	Counter uint32

	// Refuses says that Handler itself answers 413 to a request that is TooLarge (see
	// conn.Config.Refuses), with a page of its own. Else the router does.
	Refuses bool
}

// Name returns the name of the route for people: its prefix, and what else a path has to be.
func (r *Route) Name() string {
	switch {
	case r.Exact:
		return r.Prefix + " alone"
	case r.Regexp != nil:
		return r.Prefix + " with " + r.Regexp.String()
	}
	return r.Prefix
}

// RouteError says which entry of NewRouter's argument is wrong, by index, so that the configuration
// can point at its line.
type RouteError struct {
	Site  int    // index of the site
	Route int    // index of the route in it; -1 if the site itself is wrong
	Key   string // "host", "scheme", "prefix" or "handler", as the configuration calls it
	Err   error  // what is wrong, without the key's name
}

// Error gives the position, counted from 1, and the cause.
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
	hosts tables
}

// target is where a route leads: its handler, and the prefix without a slash at its end ("" for the
// whole site).
type target struct {
	prefix  string
	handler conn.Handler
	index   int    // of the route in its site
	counter uint32 // of the Route
	refuses bool
	exact   bool
}

// NewRouter builds a router of sites.
//
// Of several sites for the same host, listener and scheme, the one that names the most answers: a
// site with Listeners comes before one with a Scheme, and that before one with neither. The default
// site is the one without hosts, or the first if all have some. It is an error if two sites that
// name equally much would answer the same requests, because of the same host or since neither has
// hosts, and if a prefix occurs twice in a site: no request would reach one of the two. Errors are
// *RouteError. A router without sites answers every request with 404.
func NewRouter(sites []Site) (*Router, error) {
	r := &Router{hosts: newTables(sites)}
	for i, s := range sites {
		to := &site{index: i, rank: s.rank(), patterns: s.Patterns, counter: s.Counter}
		for j, route := range s.Routes {
			if route.Handler == nil {
				return nil, &RouteError{Site: i, Route: j, Key: "handler",
					Err: errors.New("missing")}
			}
			tree := &to.routes
			if route.Regexp != nil {
				to.matched = append(to.matched, matched{re: route.Regexp})
				tree = &to.matched[len(to.matched)-1].prefix
			}
			t, err := tree.add(route.Prefix, route.Exact, route.Handler)
			if err != nil {
				return nil, &RouteError{Site: i, Route: j, Key: "prefix", Err: err}
			}
			t.index, t.counter, t.refuses = j, route.Counter, route.Refuses
		}
		if to.handler = to.serve; s.Around != nil {
			to.handler = s.Around(to.serve)
		}
		switch s.Scheme {
		case "", "http", "https":
		default:
			return nil, &RouteError{Site: i, Route: -1, Key: "scheme",
				Err: fmt.Errorf("expected http or https, found %q", s.Scheme)}
		}
		for _, t := range r.hosts.of(s) {
			for _, host := range s.Hosts {
				if err := t.add(host, to); err != nil {
					return nil, &RouteError{Site: i, Route: -1, Key: "host", Err: err}
				}
			}
			if err := t.addDefault(to, len(s.Hosts) == 0); err != nil {
				return nil, &RouteError{Site: i, Route: -1, Key: "host", Err: err}
			}
		}
	}
	return r, nil
}

// Serve hands req to the handler of the longest prefix that matches, or answers 404. It is a
// conn.Handler, and allocates nothing.
func (r *Router) Serve(req *conn.Request, resp *conn.Response) int {
	to := r.hosts.table(req).find(req.Layer().HostView())
	if to == nil {
		return http.StatusNotFound
	}
	req.Layer().SetCounter(to.counter)
	return to.handler(req, resp)
}

// Lookup says where a request for that host and path goes which comes by the listener of that name,
// over TLS or not: the index of the site in NewRouter's argument, and of the route in the site;
// -1 where there is none. If a pattern answers, route is -1, too. path is decoded and clean, and
// was made of raw.
func (r *Router) Lookup(listener string, secure bool,
	method, host, path, raw string) (site, route int,
	pattern string) {
	to := r.find(listener, secure, host)
	if to == nil {
		return -1, -1, ""
	}
	at := to.find([]byte(path))
	if to.patterns != nil {
		split, _ := http1.SplitPath([]byte(path), []byte(raw))
		p := to.patterns.ready().look(method, []byte(host), split, nil).pattern
		if outranks(p, at) {
			return to.index, -1, p.Text
		}
	}
	if at != nil {
		return to.index, at.index, ""
	}
	return to.index, -1, ""
}

// Site returns the index, in NewRouter's argument, of the site that a request of https for a host
// gets to by the listener of that name; -1 if there is no site. For "" it is the default site.
func (r *Router) Site(listener, host string) int {
	if to := r.find(listener, true, host); to != nil {
		return to.index
	}
	return -1
}

func (r *Router) find(listener string, secure bool, host string) *site {
	t := &r.hosts.others[0]
	if r.hosts.split {
		t = r.hosts.at(listener, secure)
	}
	return t.find([]byte(host))
}

// site is a Site made ready.
type site struct {
	index    int
	routes   prefixTree
	matched  []matched
	patterns *Mux         // nil: there are none
	handler  conn.Handler // serve, and what is around it
	counter  uint32       // of the Site
	rank     int          // of several sites for the same request, the one with the highest answers
}

// matched is a route with an expression.
type matched struct {
	prefix prefixTree // has the route alone
	re     *regexp.Regexp
}

// find returns the target for a path, nil if there is none.
func (s *site) find(path []byte) *target {
	t := s.routes.find(path)
	if len(s.matched) == 0 || t != nil && t.exact {
		return t
	}
	return s.match(path, t)
}

// match is find for a site with expressions; t is the target for other paths.
//
//go:noinline
func (s *site) match(path []byte, t *target) *target {
	for i := range s.matched {
		m := &s.matched[i]
		if found := m.prefix.find(path); found != nil && m.re.Match(path) {
			return found
		}
	}
	return t
}

// Again is the status of a route's handler that has rewritten the request, see
// conn.RequestLayer.Rewrite: the route for the new path is chosen, among those of the same site.
// What wraps the first route's handler returns the status as it is; the hooks and error pages that
// it has set are dropped.
const Again = -1

func (s *site) serve(req *conn.Request, resp *conn.Response) int {
	for {
		t := s.find(req.Layer().PathView())
		if t == nil && s.patterns == nil {
			return http.StatusNotFound
		}
		if req.Layer().TooLarge() && (t == nil || !t.refuses) {
			return http.StatusRequestEntityTooLarge
		}
		hooks, pages := resp.Layer().Hooks()
		rewrites := req.Layer().Rewrites()
		var status int
		if s.patterns == nil {
			req.Layer().SetPrefix(t.prefix)
			req.Layer().SetCounter(t.counter)
			status = t.handler(req, resp)
		} else {
			status = s.choose(t, req, resp)
		}
		if status != Again || req.Layer().Rewrites() == rewrites {
			return status
		}
		s.reset(req, resp, hooks, pages)
	}
}

// reset undoes what was said of a request that was rewritten. It stands apart from serve because
// stacks are small, and handlers run on top of serve.
//
//go:noinline
func (s *site) reset(req *conn.Request, resp *conn.Response, hooks, pages int) {
	resp.Layer().DropHooks(hooks, pages)
	req.Layer().SetPattern("", nil, nil)
	req.Layer().SetCounter(s.counter)
}

// choose calls the handler of a pattern, or of the route t, if that is not nil.
func (s *site) choose(t *target, req *conn.Request, resp *conn.Response) int {
	all := s.patterns.ready()
	switch f := all.find(req); {
	case outranks(f.pattern, t):
		if req.Layer().TooLarge() {
			return http.StatusRequestEntityTooLarge
		}
		return all.serve(&f, req, resp)
	case t == nil:
		return all.refuse(req, resp)
	}
	req.Layer().SetPrefix(t.prefix)
	req.Layer().SetCounter(t.counter)
	return t.handler(req, resp)
}

// outranks reports whether p, nil for none, answers in place of t, nil for none. See Site.Patterns.
func outranks(p *route.Pattern, t *target) bool {
	return p != nil && (t == nil || p.Host != "" || !t.exact && len(p.Prefix) >= len(t.prefix))
}
