package server

import (
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/errorpages"
)

// around is the keys that a site and a route have in common: what happens to a request before it is
// handed on, and to its answer afterwards. A site's come before the choice of the route, a route's
// before its module.
//
// Outermost are error pages: what refuses a request further in gets its page.
type around struct {
	ErrorPages map[string]string `toml:"error_pages"`
}

// middleware makes one Middleware of all, or nil if there is nothing to do. report takes what is
// wrong with a key.
func (a *around) middleware(env handlers.Env, report func(error)) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	pages, err := errorpages.New(a.ErrorPages, env)
	if err != nil {
		report(err)
	}
	if pages != nil {
		layers = append(layers, pages.Outer)
	}

	if pages != nil {
		layers = append(layers, pages.Inner) // the last one
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
