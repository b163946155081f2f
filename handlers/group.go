package handlers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
)

// Group is handlers of a Mux that have a prefix or layers in common. One goroutine at a time may
// use it.
type Group struct {
	mux    *Mux
	prefix string
	layers []Middleware // Checked, outermost first
	begun  string       // where its first handler or group was registered; empty: there is none
}

// Use puts layers around the group's handlers, within those that are there already. It is called
// before the group's first Handle and Group, and panics behind them: what was registered before
// would do without the layer.
func (g *Group) Use(layers ...Middleware) {
	if g.begun != "" {
		panic(fmt.Sprintf("lwango: Use (%s): comes before the group's handlers, and there is one "+
			"already (%s)", Caller(), g.begun))
	}
	g.add(layers)
}

func (g *Group) add(layers []Middleware) {
	for _, l := range layers {
		g.layers = append(g.layers, Checked(l, Caller()))
	}
}

// Group makes a group within g: its prefix stands behind g's, its layers are within those of
// g.
func (g *Group) Group(prefix string, layers ...Middleware) *Group {
	g.begin()
	if i := strings.IndexByte(prefix, '/'); prefix != "" && (i < 0 || i > 0 && g.prefix != "") {
		panic(fmt.Sprintf("lwango: Group (%s): the prefix %q does not begin with a slash",
			Caller(), prefix))
	}
	in := &Group{mux: g.mux, prefix: g.prefix + strings.TrimSuffix(prefix, "/"),
		layers: slices.Clone(g.layers)}
	in.add(layers)
	return in
}

// Handle registers h, within the layers of g, for the pattern with the group's prefix in front of
// its path: in a group for "/api", "GET /items" is "GET /api/items", and "/{$}" is "/api/{$}". Each
// layer is called once for each handler. Handle panics as Mux.Handle does.
func (g *Group) Handle(pattern string, h conn.Handler) {
	g.begin()
	method, path := "", pattern
	if i := strings.LastIndexAny(pattern, " \t"); i >= 0 {
		method, path = pattern[:i+1], pattern[i+1:]
	}
	if !strings.HasPrefix(path, "/") && g.prefix != "" {
		panic(fmt.Sprintf("lwango: Handle: %q (%s): in a group with a prefix, a path begins with a "+
			"slash, behind the method", pattern, Caller()))
	}
	if around := Chain(slices.Clone(g.layers)...); around != nil && h != nil {
		h = around(h)
	}
	g.mux.Handle(method+g.prefix+path, h)
}

func (g *Group) begin() {
	if g.begun == "" {
		g.begun = Caller()
	}
}

// layer is what a Middleware of a Mux is given as next, which a later Use sets.
type layer struct{ next conn.Handler }

func (l *layer) serve(req *conn.Request, resp *conn.Response) int { return l.next(req, resp) }

// Checked makes a Middleware of one that the program has set at caller. Checked panics if m is
// nil, and the Middleware panics if m returns no handler: both name caller.
func Checked(m Middleware, caller string) Middleware {
	if m == nil {
		panic("lwango: Use (" + caller + "): the middleware is nil")
	}
	return func(next conn.Handler) conn.Handler {
		h := m(next)
		if h == nil {
			panic("lwango: Use (" + caller + "): the middleware has returned no handler")
		}
		return h
	}
}
