// Package handlers turns a configuration into one conn.Handler: a Registry knows the modules and
// the compiled-in handlers by name, a Router sends each request to the handler of the longest
// matching prefix in the site of its host.
//
// Beside it stands the router of programs, a Mux, which knows patterns and not sites. A Site can
// have one, for what no longer prefix answers.
//
// A module is a package below this one with a manual of its own (README.md): a settings struct, a
// function that builds a handler from it, and Register, which puts both under the module's name. A
// module does not read TOML: it gets its settings filled in and checked for unknown keys and wrong
// types, and returns a KeyError for a bad value.
//
// Registries and routers are values. A Registry is filled by one goroutine before any other
// goroutine reads it; from then on it does not change. A Router never changes after NewRouter, so
// all loops may use the same one at once. Handlers, too, run on many loops at once: a handler
// guards what it shares between requests itself.
//
//	registry.go  Registry, RegisterModule, Module, Env, Middleware, KeyError
//	field.go     CheckField: header fields in settings
//	size.go      Size: "16KiB" in settings
//	router.go    Site, Route, Router: the way from a request to its handler
//	tables.go    which sites answer at which listener and for which scheme
//	hosts.go     which site answers for which host
//	prefixes.go  which route of a site answers for which path
//	siteroutes.go  SiteRoutes: what a module asks of the routes beside its own
//	mux.go       Mux: patterns as those of net/http.ServeMux (parsing and tree: internal/route)
//	group.go     Group: a prefix and layers in common; layers that forget next
package handlers
