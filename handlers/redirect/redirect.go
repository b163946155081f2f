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
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
)

// Settings are the module's keys.
type Settings struct {
	// To is the address, or a path.
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
func New(s Settings, env handlers.Env) (conn.Handler, error) {
	switch s.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, handlers.BadKey("status", "expected 301, 302, 303, 307 or 308, not %d",
			s.Status)
	}
	to, err := around.Of(env).Maps.ParseAddress(s.To, nil)
	if err != nil {
		return nil, &handlers.KeyError{Key: "to", Err: err}
	}
	return func(req *conn.Request, resp *conn.Response) int {
		from := placeholder.Source(req)
		t := to.Choose(req.Layer(), from)
		switch {
		case t == nil: // the value of a map, and it is empty
			return http.StatusNotFound
		case !t.Fits(from.Host):
			// HTTP/1.0 may leave the host out, and browsers take "https:///x" for a server called x.
			return http.StatusBadRequest
		}
		resp.Header().Set("Location", t.Expand(from))
		return s.Status
	}, nil
}
