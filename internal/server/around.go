package server

import (
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/server/settings"
)

// around is the keys that a site and a route have in common: what happens to a request before it is
// handed on, and to its answer afterwards. A site's come before the choice of the route, a route's
// before its module.
type around struct {
	Table settings.Table  `toml:",table"`
	Limit *limit.Settings `toml:"limit"`
	Auth  *auth.Settings  `toml:"auth"`
}

// middleware makes one Middleware of all, or nil if there is nothing to do. report takes what is
// wrong with a key. The order is: limit, auth.
func (a *around) middleware(env handlers.Env, report func(error)) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	add := func(key string, m handlers.Middleware, err error) {
		if err != nil { // at a key of the table that is the value of key
			reportAt(a.Table.Sub(key), "", err)
			return
		}
		layers = append(layers, m)
	}
	if a.Limit != nil {
		m, err := limit.New(*a.Limit, env)
		add("limit", m, err)
	}
	if a.Auth != nil {
		m, err := auth.New(*a.Auth, env)
		add("auth", m, err)
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
