package server

import (
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
)

// around is the keys that a site and a route have in common: what happens to a request before it is
// handed on, and to its answer afterwards. A site's come before the choice of the route, a route's
// before its module.
type around struct {
	Compression *compressionConfig `toml:"compression"`
}

// middleware makes one Middleware of all, or nil if there is nothing to do. report takes what is
// wrong with a key.
//
// The order is: compression, which so sees what all others answer.
func (a *around) middleware(env handlers.Env, report func(error)) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	if a.Compression != nil {
		layers = append(layers, compress.Middleware(env.Compression))
	}
	if len(layers) == 0 {
		return nil
	}
	return func(next conn.Handler) conn.Handler {
		for _, m := range slices.Backward(layers) {
			next = m(next)
		}
		return next
	}
}
