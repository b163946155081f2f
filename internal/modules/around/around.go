// Package around gives the repository's own modules and layers, beyond handlers.Env, the
// surroundings of their route:
//
//	around.Of(env).LargerBodies(limit)
//
// The maker of a route puts a Context into Env.Process. In a test of a module there may be none;
// then the calls have no effect.
package around

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// Context is the surroundings of a route.
type Context struct {
	Process

	// Routes are the routes of the site, for subrequests (conn.Request.Subrequest).
	Routes *handlers.SiteRoutes

	// Route is the present one of them; nil: it is the site itself.
	Route *handlers.Route

	// Scripts are the endings of the names of scripts, such as ".php", that routes of the site run;
	// none: no route runs any. No route of the site may send the source of a script.
	Scripts []string

	// Compression says what the route compresses and how; nil: nothing.
	Compression *coding.Policy

	// Buffering says that the module of the route has the trait handlers.Buffering.
	Buffering bool

	// Internal says that clients cannot reach the route: its prefix is for the configuration alone.
	Internal bool

	// ErrorPages are the statuses for which the route or its site has a page; nil: for none.
	ErrorPages map[int]bool

	// Maps are the tables [[map]], which make a part of the placeholders; nil: there are none.
	Maps *placeholder.Maps

	// Dependence is what the answers of the route's module depend on, for the layers around it.
	Dependence handlers.Dependence
}

// Process has the calls of a build function to the server.
type Process interface {
	handlers.Process

	// Count makes the server count its requests by route, see conn.Config.Count. snapshot returns the
	// counts and the state of the server. It waits for the loops, a second at most, so it is called
	// off the loops, once the server runs.
	Count() (snapshot func() (*metrics.Snapshot, error))

	// Stopping reports whether the server has been told to stop. Handlers call it, on any loop.
	Stopping() bool

	// Upstreams gives the server the upstreams of the handler.
	Upstreams(u metrics.Upstreams)

	// Shared returns the [[upstream]] of that name; nil: there is none.
	Shared(name string) *Shared

	// Counts returns the counters of a handler, or layer, of the route or the site. of is the value of
	// k.Label. They go on over reloads.
	Counts(k *metrics.Kind, of string) []atomic.Int64

	// LargerBodies tells the server, at the start, that a handler behind the route's limit takes
	// request bodies of so many bytes, whatever max_body_size is. See conn.Body.ReplaceLimit.
	LargerBodies(bytes int64)
}

// Shared is an [[upstream]], which several routes use. It changes only while routes are built.
type Shared struct {
	Table settings.Table
	Log   *slog.Logger
	// Group is made by the first route that is built; nil: none was.
	Group *upstream.Group
}

// Of returns the Context of the route of env.
func Of(env handlers.Env) Context {
	c, _ := env.Process.(Context)
	if c.Process == nil {
		c.Process = None{}
	}
	if c.Routes == nil {
		c.Routes = new(handlers.SiteRoutes)
	}
	return c
}

// In returns c for Env.Process, with None if c has no server.
func In(c Context) handlers.Process {
	if c.Process == nil {
		c.Process = None{}
	}
	return c
}

// Intercepts reports whether a page of the server replaces an answer of an application, on a route
// with `intercept_errors`: an error for which there is a page. Without any pages all errors get the
// built-in ones.
func (c Context) Intercepts(status int) bool {
	return status >= 400 && (len(c.ErrorPages) == 0 || c.ErrorPages[status])
}

// None is a Server that does nothing.
type None struct{}

func (None) Loops() []*loop.Loop                             { return nil }
func (None) Background(func(ctx context.Context))            {}
func (None) Reads(string)                                    {}
func (None) Depends(handlers.Dependence)                     {}
func (None) Upstreams(metrics.Upstreams)                     {}
func (None) Stopping() bool                                  { return false }
func (None) LargerBodies(int64)                              {}
func (None) Shared(string) *Shared                           { return nil }
func (None) Counts(k *metrics.Kind, _ string) []atomic.Int64 { return k.New() }
func (None) Count() func() (*metrics.Snapshot, error) {
	return func() (*metrics.Snapshot, error) { return nil, errors.New("no server serves this route") }
}
