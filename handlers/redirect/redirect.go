// Package redirect is the module `redirect`: a route that sends its clients to another address.
//
//	[[site.route]]
//	prefix = "/docs"
//	module = "redirect"
//	to = "/manual{path}{query}"
package redirect

import (
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/template"
)

// Settings are the module's keys.
type Settings struct {
	To string `toml:"to"`
	// Status is 302 by default: clients keep a wrong 301 in their caches long after it was
	// corrected.
	Status int `toml:"status" default:"302"`
}

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "redirect", tags.Defaults[Settings](), New, handlers.Uncached)
}

// New makes the handler. Errors are *handlers.KeyError. The handler may run on any number of loops
// at once.
func New(s Settings, _ handlers.Env) (conn.Handler, error) {
	switch s.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, handlers.BadKey("status", "expected 301, 302, 303, 307 or 308, not %d",
			s.Status)
	}
	to, err := template.ParseAddress(s.To, nil)
	if err != nil {
		return nil, &handlers.KeyError{Key: "to", Err: err}
	}
	return func(req *conn.Request, resp *conn.Response) int {
		// HTTP/1.0 may leave the host out, and browsers take "https:///x" for a server called x.
		if !to.Fits(req.Host()) {
			return http.StatusBadRequest
		}
		resp.Header().Set("Location", to.Expand(placeholder.Source(req)))
		return s.Status
	}, nil
}
