// Package handlers has what modules are made with, and turns a configuration into one conn.Handler.
//
// A module is a package below this one with a manual of its own (README.md): a settings struct, a
// function that builds a handler from it, and Register, which puts both under the module's name:
//
//	type Settings struct {
//		Text string `toml:"text"`
//	}
//
//	func New(s Settings, env handlers.Env) (conn.Handler, error) {
//		if s.Text == "" {
//			return nil, handlers.BadKey("text", "it is empty")
//		}
//		return func(req *conn.Request, resp *conn.Response) int {
//			return resp.Text(200, s.Text)
//		}, nil
//	}
//
//	func Register(r *handlers.Registry) {
//		handlers.RegisterModule(r, "text", Settings{}, New)
//	}
//
// A module does not read TOML: its settings come filled in and checked for unknown keys and wrong
// types. A program registers modules by lwango.RegisterModule.
//
// A Registry knows the modules and the compiled-in handlers by name. A Router sends each request to
// the handler of the longest matching prefix in the site of its host. A Mux, the router of
// programs, knows patterns and not sites; a Site can have one, for what no longer prefix answers.
//
// Registries and routers are values. A Registry is filled by one goroutine before any other
// goroutine reads it; from then on it does not change. A Router never changes after NewRouter, so
// all loops may use the same one at once. Handlers, too, run on many loops at once: a handler
// guards what it shares between requests itself.
//
// # Files
//
//	registry.go    Registry, RegisterModule, Module, Trait, Env, Middleware, KeyError
//	depend.go      Dependence: what a cache in front of a handler has to know of it
//	field.go       CheckField: header fields in settings
//	router.go      Site, Route, Router: the way from a request to its handler
//	tables.go      which sites answer at which listener and for which scheme
//	hosts.go       which site answers for which host
//	prefixes.go    which route of a site answers for which path
//	siteroutes.go  SiteRoutes: what a module asks of the routes beside its own
//	mux.go         Mux: patterns as those of net/http.ServeMux (parsed by internal/wire/route)
//	group.go       Group: a prefix and layers in common; layers that forget next
package handlers
