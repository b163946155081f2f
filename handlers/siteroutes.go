package handlers

import (
	"strings"

	"github.com/lwango/lwango/conn"
)

// SiteRoutes stands for the routes of a site where they are not there yet: handlers of routes are
// made before their site. It is set up by one goroutine, before anything is served.
type SiteRoutes struct {
	All []Route // without their handlers

	next conn.Handler
}

// Inner is the innermost Middleware of the site: what it is given is the choice of the route.
func (r *SiteRoutes) Inner(next conn.Handler) conn.Handler {
	r.next = next
	return next
}

// Serve hands a request to the route for its path. It passes neither the site's rules nor whatever
// else is around the choice.
func (r *SiteRoutes) Serve(req *conn.Request, resp *conn.Response) int { return r.next(req, resp) }

// Of returns the route for a clean path, nil if there is none: as a router chooses, but for the
// program's patterns with wildcards.
func (r *SiteRoutes) Of(path string) (found *Route) {
	matched := false // found has an expression
	for i := range r.All {
		switch one := &r.All[i]; {
		case one.Exact && one.Prefix == path:
			return one
		case one.Exact, matched, !one.above(path):
		case one.Regexp != nil && one.Regexp.MatchString(path):
			found, matched = one, true
		case one.Regexp == nil && (found == nil || len(one.Prefix) > len(found.Prefix)):
			found = one
		}
	}
	return found
}

// above reports whether a path is Prefix, or below it.
func (r *Route) above(path string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(r.Prefix, "/")+"/")
}
