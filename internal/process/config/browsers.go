package config

import (
	"fmt"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/browsers"
	"github.com/lwango/lwango/internal/base/settings"
)

// CSRF is the value of `csrf` in a site or a route: a table, true or false. A table stands for
// true.
type CSRF struct {
	Table settings.Table `toml:",table"`
	On    *bool          `toml:",switch"`

	browsers.CSRF `toml:",inline"`
}

// on reports whether requests are checked. c may be nil.
func (c *CSRF) on() bool { return c != nil && (c.On == nil || *c.On) }

// browsers makes one Middleware of the keys that are about browsers; nil if none is set.
func (a *Around) browsers() handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	add := func(key string, m handlers.Middleware, err error) {
		if err != nil {
			reportAt(a.Table.Sub(key), "", err)
			return
		}
		layers = append(layers, m)
	}
	if a.SecurityHeaders != "" {
		layers = append(layers, browsers.NewSecurityHeaders(a.SecurityHeaders))
	}
	if a.CORS != nil {
		m, err := browsers.NewCORS(*a.CORS)
		add("cors", m, err)
	}
	if a.CSRF.on() {
		m, err := browsers.NewCSRF(a.CSRF.CSRF)
		add("csrf", m, err)
	}
	return handlers.Chain(layers...)
}

// onceFor reports those keys about browsers that a route has beside its site: the site's are for
// all its routes, and answer first.
func (s *Site) onceFor(r *Around) {
	const beside = "the site has the key, too, for all its routes; " +
		"expected it at the site or at routes"
	if s.Around.SecurityHeaders != "" && r.SecurityHeaders != "" {
		r.Table.Errorf("security_headers", beside)
	}
	if s.Around.CORS != nil && r.CORS != nil {
		r.Table.Errorf("cors", beside)
	}
	if s.Around.CSRF.on() && r.CSRF != nil {
		r.Table.Errorf("csrf", beside+" alone, and bypass for the paths that are no part of it")
	}
}

// explainBrowsers describes the keys that are about browsers.
func (a *Around) explainBrowsers(say func(string)) {
	line := func(key, what string) {
		say(fmt.Sprintf("%s (%s): %s", key, a.Table.Position(key), what))
	}
	if a.SecurityHeaders != "" {
		line("security_headers", a.SecurityHeaders)
	}
	if a.CORS != nil {
		line("cors", a.CORS.String())
	}
	if a.CSRF.on() {
		line("csrf", a.CSRF.String())
	}
}
