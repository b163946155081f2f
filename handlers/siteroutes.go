package handlers

import (
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
)

// SiteRoutes stands for the routes of a site where they are not there yet: handlers of routes are
// made before their site. It is set up by one goroutine, before anything is served.
type SiteRoutes struct {
	Prefixes []string // of the routes, as in Route
	Exact    []string // of those that are for one path alone

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

// Of returns the prefix of the route for a clean path; ok is false if there is none.
func (r *SiteRoutes) Of(path string) (prefix string, ok bool) {
	if slices.Contains(r.Exact, path) {
		return path, true
	}
	for _, p := range r.Prefixes {
		below := strings.TrimSuffix(p, "/")
		if strings.HasPrefix(path+"/", below+"/") && (!ok || len(p) > len(prefix)) {
			prefix, ok = p, true
		}
	}
	return prefix, ok
}
