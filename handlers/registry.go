package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/loop"
)

// Env tells a module where its route is.
type Env struct {
	// Dir is the folder of the configuration file. A relative path in a module's settings begins
	// here.
	Dir string

	// Prefix is the route's path prefix as configured, "/" for a route of all paths. It is empty for
	// what is a site's, and not a route's.
	Prefix string

	// Hosts are the names of the route's site, as in Site; none: it answers for every host.
	Hosts []string

	// Logger takes the module's log lines, at the start and later. The server always sets it, to one
	// that tells the site in each line, and the route; where it is nil, as in a test, Log returns one
	// that drops everything.
	Logger *slog.Logger

	// Process is what Env's methods ask; nil where nothing serves, as in a test of a module.
	Process Process
}

// Process is what runs a module's handler, as its Env has it: the server with its loops.
type Process interface {
	Loops() []*loop.Loop                    // see Env.Loops
	Background(f func(ctx context.Context)) // see Env.Background
	Reads(path string)                      // is told of each path that Env.Path returns
	Depends(on Dependence)                  // see Env.Depends
}

// Loops returns the loops of the server. A handler of the module may call it, on any loop; before
// there are loops, and where nothing serves, it returns nil. What belongs to a loop, its Stats for
// one, is read in a function that is posted to it.
func (e Env) Loops() []*loop.Loop {
	if e.Process == nil {
		return nil
	}
	return e.Process.Loops()
}

// Background runs f on a goroutine of its own as long as a server uses the handler: from when it is
// in force until a reload has exchanged it, or the server stops. f returns soon after the end of
// ctx. Where nothing serves, f does not run. Background is for the build function.
func (e Env) Background(f func(ctx context.Context)) {
	if e.Process != nil {
		e.Process.Background(f)
	}
}

// Path returns the path of a file or a folder of the settings, which begins in Dir if it is
// relative. A server that confines itself, by Landlock, lets its handlers read these, and all below
// a folder. Path is for the build function.
func (e Env) Path(path string) string {
	path = confpath.Join(e.Dir, path)
	if e.Process != nil {
		e.Process.Reads(path)
	}
	return path
}

// Log returns the logger of e, or one that drops everything. It may be called from any goroutine.
func (e Env) Log() *slog.Logger {
	if e.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Logger
}

// Size is a number of bytes in settings.
type Size = conn.Size

// ScriptRunner is implemented by the settings of modules that run scripts.
type ScriptRunner interface {
	// ScriptEndings returns how their names end. It may be called before a handler is built, from
	// any goroutine.
	ScriptEndings() []string
}

// FolderHolder is implemented by the settings of modules that serve what lies in a folder.
type FolderHolder interface {
	// Folder returns it, as the configuration has it. It may be called before a handler is built,
	// from any goroutine.
	Folder() string
}

// DescriptorHolder is implemented by the settings of modules whose handlers hold files open between
// requests.
type DescriptorHolder interface {
	// Descriptors returns how many a handler with these settings holds at most, on all loops
	// together. The server lets in fewer connections for them. It may be called before the handler
	// is built, from any goroutine.
	Descriptors() int
}

// KeyError is the error of a module's build function for a bad value. The server adds the file and
// the line of the key.
type KeyError struct {
	Key string // as it stands in the file, such as "status"
	Err error  // what was expected, without the key's name
}

// Error gives the key and what is wrong with it.
func (e *KeyError) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return e.Key + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// BadKey makes a KeyError for key with a formatted cause; %w works as in fmt.Errorf.
func BadKey(key, format string, args ...any) error {
	return &KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}

// Middleware makes a handler of another one: it sees the request before next does, and may answer
// instead of next. What it does to the answer, it does in a hook that it gives to BeforeHead, of
// conn.ResponseLayer, before it calls next: of a body that next sets (SetBody and others), nothing
// remains that was written before, and nothing can be written behind it. Middleware is called at
// the start; its handler, on all loops.
type Middleware func(next conn.Handler) conn.Handler

// Chain makes one Middleware of several, outermost first. Those that are nil are left out; it is
// nil if none is left.
func Chain(all ...Middleware) Middleware {
	all = slices.DeleteFunc(all, func(m Middleware) bool { return m == nil })
	if len(all) == 0 {
		return nil
	}
	return func(next conn.Handler) conn.Handler {
		for _, m := range slices.Backward(all) {
			next = m(next)
		}
		return next
	}
}

// Module is a kind of handler that is configured by settings of its own.
type Module struct {
	// Name is what `module = "..."` says in the configuration.
	Name string

	// NewSettings returns a pointer to a new settings struct that holds the defaults. Its fields
	// carry `toml:"key"` tags.
	NewSettings func() any

	// Build makes a handler from settings, which must come from NewSettings. An error about one key
	// is a *KeyError. Build may open files and wait for disks: the server calls it on an ordinary
	// goroutine, never on a loop.
	Build func(settings any, env Env) (conn.Handler, error)

	// Traits are those that RegisterModule was given.
	Traits Trait
}

// Trait is a set of bits that tell the server what a module's answers need of it, whatever the
// settings are.
type Trait uint8

const (
	// Uncached leaves the routes of the module out of their site's `cache`: the module answers as fast
	// as a cache would. A route with a `cache` of its own is cached all the same.
	Uncached Trait = 1 << iota

	// Buffering says that the module buffers what a slow client has no room for yet, so that the
	// client does not delay the application. On a miss, the cache then stores the answer to the
	// client's own request while the module sends it. A module without buffers gets a request of the
	// cache's, so that a slow client delays neither the application nor other clients.
	Buffering
)

// Registry holds modules and compiled-in handlers by name. The zero value is an empty one, ready
// for use. One goroutine at a time may register, and none once others read; any number may read at
// once.
type Registry struct {
	modules    map[string]Module
	handlers   map[string]conn.Handler
	middleware map[string]Middleware
}

// RegisterModule puts a module with settings of type S, a struct, into r. Every route that names
// the module starts from a shallow copy of defaults: all routes share its maps and slices, so build
// must not write to them. traits may be left out.
//
// It panics if the name is empty or taken: two modules of one name are a mistake in the program,
// not in its configuration.
func RegisterModule[S any](r *Registry, name string, defaults S,
	build func(S, Env) (conn.Handler, error), traits ...Trait) {
	var all Trait
	for _, t := range traits {
		all |= t
	}
	put(&r.modules, "module", name, build != nil, Module{
		Name:   name,
		Traits: all,
		NewSettings: func() any {
			s := defaults
			return &s
		},
		Build: func(settings any, env Env) (conn.Handler, error) {
			s, ok := settings.(*S)
			if !ok {
				return nil, fmt.Errorf("module %s takes settings of type %T, not %T", name, s,
					settings)
			}
			return build(*s, env)
		},
	})
}

// put puts v, which has a function, into one of the maps of a Registry.
func put[V any](all *map[string]V, kind, name string, has bool, v V) {
	if name == "" || !has {
		panic("handlers: a " + kind + " needs a name and a function")
	}
	if _, taken := (*all)[name]; taken {
		panic("handlers: " + kind + " " + name + " registered twice")
	}
	if *all == nil {
		*all = make(map[string]V)
	}
	(*all)[name] = v
}

// HandleFunc puts a compiled-in handler into r, for `handler = "name"` in the configuration. It
// panics if the name is empty or taken, or if h is nil.
func (r *Registry) HandleFunc(name string, h conn.Handler) {
	put(&r.handlers, "handler", name, h != nil, h)
}

// RegisterMiddleware puts a compiled-in middleware into r, for `use = ["name"]` in the
// configuration. It panics if the name is empty or taken, or if m is nil.
func (r *Registry) RegisterMiddleware(name string, m Middleware) {
	put(&r.middleware, "middleware", name, m != nil, m)
}

// Module returns the module of that name.
func (r *Registry) Module(name string) (Module, bool) {
	m, ok := r.modules[name]
	return m, ok
}

// Handler returns the compiled-in handler of that name.
func (r *Registry) Handler(name string) (conn.Handler, bool) {
	h, ok := r.handlers[name]
	return h, ok
}

// Middleware returns the compiled-in middleware of that name.
func (r *Registry) Middleware(name string) (Middleware, bool) {
	m, ok := r.middleware[name]
	return m, ok
}

// ModuleNames returns the names of all modules, sorted.
func (r *Registry) ModuleNames() []string { return slices.Sorted(maps.Keys(r.modules)) }

// HandlerNames returns the names of all compiled-in handlers, sorted.
func (r *Registry) HandlerNames() []string { return slices.Sorted(maps.Keys(r.handlers)) }

// MiddlewareNames returns the names of all compiled-in middleware, sorted.
func (r *Registry) MiddlewareNames() []string { return slices.Sorted(maps.Keys(r.middleware)) }
