package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/handlers/errorpages"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/wire/template"
	"github.com/lwango/lwango/loop"
)

// builtSite is a site of the file with its handlers, and with the tables for errors of the router.
type builtSite struct {
	handlers.Site
	table  settings.Table
	routes []settings.Table
}

// buildSites makes the handlers of all routes. It reports the errors of a route and leaves the
// route out, so that one run finds the errors of all routes.
func (c *Config) buildSites(s Source) (sites []builtSite) {
	c.compression = c.Compress.within(scope{Settings: compress.Defaults,
		cache: coding.NewCache(int64(*compress.Defaults.Cache))})
	c.limits = s.Limits.Begin(c.Pubsub.URL != "")
	for i := range c.Sites {
		site := &c.Sites[i]
		b := builtSite{table: site.Table, Site: handlers.Site{Hosts: site.Hosts,
			Listeners: site.Listeners, Scheme: site.Scheme}}
		name := RouteName{Site: siteName(site.Hosts)}
		var depends handlers.Dependence
		its := around.Context{Process: routeNotes{c, s.Counters, &name, &depends},
			Routes: site.siteRoutes(s), Maps: c.values}
		env := handlers.Env{Dir: c.Dir, Hosts: site.Hosts, Logger: s.Logger}
		ofSite := env.Log().With("site", name.Site)
		compression := site.Around.Compression.within(c.compression)
		c.countDescriptors(site.Around.ErrorPages)
		plans := make([]builtRoute, len(site.Routes))
		// Build asks env which scripts the other routes run, so the settings of all are read first.
		for i := range site.Routes {
			r := &site.Routes[i]
			switch {
			case r.Prefix == "":
				r.Rest.Errorf("prefix", `missing; expected the beginning of a path, such as "/"`)
			case !r.Exact && r.Regexp == "" && s.compiled(r.Prefix):
				r.Rest.Errorf("prefix",
					"%q: the program has a handler of its own there, which would get no requests",
					r.Prefix)
			}
			c.countDescriptors(r.Around.ErrorPages)
			var err error
			switch {
			case r.Regexp == "":
			case r.Exact:
				r.Rest.Errorf("regexp", "a route is exact or has an expression, not both")
			default:
				if r.re, _, err = template.Expression(r.Regexp); err != nil {
					r.Rest.Errorf("regexp", "%v", err)
				}
				its.Routes.All[i].Regexp = r.re
			}
			if plans[i], err = s.buildRoute(*r); err != nil {
				reportRoute(r, err)
			}
			if !c.useUpstream(r, &plans[i]) {
				plans[i] = builtRoute{}
			}
			if scripts, ok := plans[i].settings.(handlers.ScriptRunner); ok {
				its.Scripts = append(its.Scripts, scripts.ScriptEndings()...)
			}
			if holder, ok := plans[i].settings.(handlers.DescriptorHolder); ok {
				c.Descriptors += holder.Descriptors()
			}
			if keeper, ok := plans[i].settings.(interface{ KeptFiles() int }); ok {
				c.OpenFiles += keeper.KeptFiles()
			}
		}
		for i := range site.Routes {
			r := &site.Routes[i]
			h := plans[i].handler
			env.Logger = ofSite.With("route", r.named())
			inner := r.Around.Compression.within(compression)
			its.Compression, its.Internal, its.Route = inner.policy, r.Internal, &its.Routes.All[i]
			if inner.policy == nil {
				r.checkPrecompressed(plans[i].settings)
			}
			depends = handlers.Dependence{}
			if plans[i].settings != nil {
				var err error
				env.Prefix, name.Route = r.Prefix, r.named()
				its.ErrorPages = errorpages.Statuses(site.Around.ErrorPages, r.Around.ErrorPages)
				env.Process = its
				build := func(set any) (conn.Handler, error) { return plans[i].module.Build(set, env) }
				if r.chosen != nil {
					h, err = r.chosen.build(r, &depends, build)
				} else {
					h, err = build(plans[i].settings)
				}
				if err != nil {
					reportRoute(r, err)
				}
			}
			folder := ""
			if f, ok := plans[i].settings.(handlers.FolderHolder); ok {
				folder = f.Folder()
			}
			its.Dependence, r.depends = depends, depends.Words
			env.Prefix, name.Route, env.Process = r.Prefix, r.named(), its
			if h != nil {
				h = c.cached(s, site, r, h, plans[i].module.Traits, env)
			}
			_, refuses := r.Around.ErrorPages["413"]
			if refuses && h != nil {
				h = refuseTooLarge(h)
			}
			site.onceFor(&r.Around)
			r.Around.nameLimits(c.limits)
			m := r.Around.middleware(env, folder, s.Modules)
			if m != nil && h != nil {
				h = m(h)
			}
			if r.AccessLog != nil && h != nil {
				h = r.AccessLog.RouteMiddleware(h)
			}
			if r.Internal && h != nil {
				h = onlyInternal(h)
			}
			if h != nil && r.Prefix != "" {
				b.Routes = append(b.Routes, handlers.Route{Prefix: r.Prefix, Exact: r.Exact,
					Regexp: r.re, Handler: h, Refuses: refuses})
				b.routes = append(b.routes, r.Rest)
			}
		}
		its.Compression, its.Internal, its.Route = compression.policy, false, nil
		env.Prefix, name.Route, env.Process, env.Logger = "", "", its, ofSite
		site.Around.Compression = nil
		if its.Compression != nil { // nothing further out would have to be kept from it
			site.Around.Compression = new(Compression)
		}
		site.Around.nameLimits(c.limits)
		report := func(err error) { reportAt(site.Table, "", err) }
		var logs handlers.Middleware // outermost: what is refused further in has its line there, too
		if site.AccessLog != nil {
			logs = site.AccessLog.Middleware
		}
		b.Around = handlers.Chain(logs, c.https(*site, s.Logger, report), c.proof(i),
			site.Around.middleware(env, "", s.Modules), s.Around, its.Routes.Inner)
		if len(site.Hosts) == 0 && site.Table.Has("host") {
			site.Table.Errorf("host",
				"expected at least one name; leave it out for the default site")
			continue
		}
		sites = append(sites, b)
	}
	return reportRefused(sites)
}

// checkPrecompressed refuses the key precompressed of a route without compression, which sends
// nothing that is compressed.
func (r *Route) checkPrecompressed(set any) {
	s, ok := set.(*servefiles.Settings)
	switch {
	case !ok:
	case !r.Rest.Has("precompressed"):
		r.Rest.Disregard("precompressed")
	case s.Precompressed:
		r.Rest.Errorf("precompressed",
			"has no effect with compression = false; encodings = [...] of a table "+
				"compression says which of them are sent")
	}
}

// siteRoutes returns the site's routes before these are made, in the order of the site, without
// their expressions. Routes of the program belong to every site.
func (s *Site) siteRoutes(src Source) *handlers.SiteRoutes {
	routes := new(handlers.SiteRoutes)
	for _, r := range s.Routes {
		routes.All = append(routes.All, handlers.Route{Prefix: r.Prefix, Exact: r.Exact})
	}
	for _, r := range src.Routes {
		routes.All = append(routes.All, handlers.Route{Prefix: r.Prefix})
	}
	if src.Patterns != nil {
		for _, prefix := range src.Patterns.Prefixes() {
			routes.All = append(routes.All, handlers.Route{Prefix: prefix})
		}
	}
	return routes
}

// routeNotes notes what the modules of a site, or of the present route, ask of handlers.Process.
type routeNotes struct {
	*Config
	counters *Counters
	route    *RouteName
	depends  *handlers.Dependence
}

// Loops returns the loops. Modules are built before there are any, and call it later.
func (t routeNotes) Loops() []*loop.Loop { return t.Config.Loops }

func (t routeNotes) Background(f func(ctx context.Context)) {
	t.Config.Background = append(t.Config.Background, f)
}

func (t routeNotes) Reads(path string) { t.HandlerFiles = append(t.HandlerFiles, path) }

func (t routeNotes) Depends(on handlers.Dependence) { *t.depends = on }

func (t routeNotes) Count() func() (*metrics.Snapshot, error) {
	t.Counted = true
	return t.snapshot
}

func (t routeNotes) Stopping() bool { return t.stopping.Load() }

func (t routeNotes) Upstreams(u metrics.Upstreams) {
	t.Config.Upstreams = append(t.Config.Upstreams, Upstreams{*t.route, u})
}

func (t routeNotes) Counts(k *metrics.Kind, of string) []atomic.Int64 {
	return t.counters.counts(*t.route, k, of)
}

func (t routeNotes) LargerBodies(bytes int64) { t.LargestBody = max(t.LargestBody, bytes) }

// builtRoute is a route that was read: a compiled-in handler, or a module with its settings;
// neither after an error.
type builtRoute struct {
	handler  conn.Handler
	module   handlers.Module
	settings any // nil: nothing is to be built
}

// buildRoute reads a route.
func (s Source) buildRoute(r Route) (builtRoute, error) {
	switch {
	case r.Module != "" && r.Handler != "":
		return builtRoute{}, handlers.BadKey("handler", "a route has a module or a handler, not both")
	case r.Module == "" && r.Handler == "":
		return builtRoute{}, handlers.BadKey("", "a route needs a module or a handler")
	case r.Handler != "":
		h, ok := s.Modules.Handler(r.Handler)
		if !ok {
			return builtRoute{}, handlers.BadKey("handler", "%s",
				unknownName("handler", r.Handler, s.Modules.HandlerNames()))
		}
		r.Rest.Decode(&struct{}{}) // a handler has no settings
		return builtRoute{handler: h}, nil
	}
	m, ok := s.Modules.Module(r.Module)
	if !ok {
		return builtRoute{}, handlers.BadKey("module", "%s",
			unknownName("module", r.Module, s.Modules.ModuleNames()))
	}
	set := m.NewSettings()
	if !r.Rest.Decode(set) {
		return builtRoute{}, nil // reported; no module is built from a part of its settings
	}
	return builtRoute{module: m, settings: set}, nil
}

// reportRoute reports an error of a build, at the key that the error names, of the route or of the
// upstream that it uses, or else at the key `module`.
func reportRoute(r *Route, err error) {
	ke, ok := errors.AsType[*handlers.KeyError](err)
	if ok && r.upstream != nil && slices.Contains(upstreamKeys, ke.Key) && !r.Rest.Has(ke.Key) {
		r.upstream.Table.Errorf(ke.Key, "%v", ke.Err)
		return
	}
	if r.Module != "" {
		reportAt(r.Rest, "module", fmt.Errorf("%s: %w", r.Module, err))
		return
	}
	reportAt(r.Rest, "module", err)
}

// reportAt reports an error at the key that the error names, or else at key.
func reportAt(t settings.Table, key string, err error) {
	if ke, ok := errors.AsType[*handlers.KeyError](err); ok {
		t.Errorf(ke.Key, "%v", ke.Err)
		return
	}
	t.Errorf(key, "%v", err)
}

func unknownName(what, got string, names []string) string {
	msg := fmt.Sprintf("there is no %s %q", what, got)
	if s := settings.Suggest(got, names); s != "" {
		return msg + fmt.Sprintf(" (did you mean %s?)", s)
	}
	return msg + " (known: " + strings.Join(names, ", ") + ")"
}

// reportRefused makes the router check hosts and prefixes. The router reports one error at a time,
// so reportRefused removes the wrong site or route and tries again until the router accepts all.
func reportRefused(sites []builtSite) []builtSite {
	for {
		check := plain(sites)
		for i := range check {
			check[i].Around = nil // which is called once for each site, by route
		}
		_, err := handlers.NewRouter(check)
		var re *handlers.RouteError
		if !errors.As(err, &re) {
			return sites
		}
		site := &sites[re.Site]
		if re.Route >= 0 {
			site.routes[re.Route].Errorf(re.Key, "%v", re.Err)
			site.routes = slices.Delete(site.routes, re.Route, re.Route+1)
			site.Routes = slices.Delete(slices.Clone(site.Routes), re.Route, re.Route+1)
			continue
		}
		site.table.Errorf(re.Key, "%v%s", re.Err, namesake(sites, re))
		sites = slices.Delete(sites, re.Site, re.Site+1)
	}
}

// namesake says where the other site is that has a host of the refused one, if that is in another
// file.
func namesake(sites []builtSite, refused *handlers.RouteError) string {
	site := sites[refused.Site]
	for _, other := range sites[:refused.Site] {
		for _, host := range other.Hosts {
			same := func(own string) bool { return strings.EqualFold(own, host) }
			if refused.Key == "host" && slices.ContainsFunc(site.Hosts, same) &&
				other.table.File() != site.table.File() {
				return fmt.Sprintf("; the other one is of the site at %s", other.table.Place(""))
			}
		}
	}
	return ""
}

func plain(sites []builtSite) []handlers.Site {
	out := make([]handlers.Site, len(sites))
	for i, s := range sites {
		out[i] = s.Site
	}
	return out
}

// countDescriptors counts the descriptors of error pages: a file each, and its folder.
func (c *Config) countDescriptors(pages map[string]string) {
	n := errorpages.KeptFiles(pages)
	c.Descriptors += n * servefiles.Defaults.Descriptors()
	c.OpenFilesPerLoop += n
}

// compiled reports whether a compiled-in route has that prefix.
func (s Source) compiled(prefix string) bool {
	return slices.ContainsFunc(s.Routes, func(r handlers.Route) bool {
		return strings.TrimSuffix(r.Prefix, "/") == strings.TrimSuffix(prefix, "/")
	})
}

// Route makes the router: the sites of the file or the folder of -r, and beside them the
// compiled-in routes. Compiled-in routes belong to every host, as those of http.Handle do. If there
// is nothing to serve, all requests get a page that says so.
func (c *Config) route(s Source, built []builtSite) error {
	sites := plain(built)
	if s.Root != "" {
		c.Background, c.Upstreams, c.Counted = nil, nil, false
		// The file's sites serve nothing now.
		c.Descriptors, c.OpenFiles, c.OpenFilesPerLoop = 0, 0, 0
		site, err := c.rootSite(s)
		if err == nil && s.compiled("/") {
			err = errors.New("the program has a handler of its own for /, " +
				"which would get no requests")
		}
		if err != nil {
			return fmt.Errorf("-r %s: %w", s.Root, err)
		}
		sites, c.servesRoot = []handlers.Site{site}, true
		sites[0].Around = handlers.Chain(compression.Middleware(c.compression.policy), s.Around)
	}
	if len(sites) == 0 {
		sites = []handlers.Site{{
			Around: handlers.Chain(compression.Middleware(c.compression.policy), s.Around)}}
		if len(s.Routes) == 0 && s.Patterns == nil {
			if s.Code != nil && slices.ContainsFunc(c.Listeners,
				func(l Listener) bool { return l.Streams == nil }) {
				return errors.New("nothing would answer requests: the Server has no Handler, nothing was " +
					"registered with Handle, and no File or Config has a [[site]]")
			}
			sites[0].Routes = []handlers.Route{{Prefix: "/", Handler: welcome}}
		}
	}
	for i := range sites {
		sites[i].Routes = slices.Concat(sites[i].Routes, s.Routes)
		sites[i].Patterns = s.Patterns
		sites[i].Counter = s.Counters.numberRoutes(sites[i].Hosts, sites[i].Routes)
	}
	router, err := handlers.NewRouter(sites)
	if err != nil {
		return err
	}
	c.Router = router
	return nil
}

// onlyInternal hides a route from clients: only requests of the server itself reach it.
func onlyInternal(h conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if !req.Layer().Internal() {
			return 404
		}
		return h(req, resp)
	}
}

// refuseTooLarge refuses requests with 413, for a route with an error page of its own for that.
func refuseTooLarge(h conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if req.Layer().TooLarge() {
			return 413
		}
		return h(req, resp)
	}
}
