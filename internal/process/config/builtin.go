package config

import (
	"path/filepath"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/echo"
	"github.com/lwango/lwango/handlers/health"
	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/redirect"
	"github.com/lwango/lwango/handlers/response"
	"github.com/lwango/lwango/handlers/scgi"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/handlers/status"
	"github.com/lwango/lwango/handlers/uwsgi"
	"github.com/lwango/lwango/internal/modules/around"
)

// Builtin returns a registry with all modules and handlers that come with lwango.
func Builtin() *handlers.Registry {
	r := new(handlers.Registry)
	servefiles.Register(r)
	response.Register(r)
	redirect.Register(r)
	fastcgi.Register(r)
	proxy.Register(r)
	uwsgi.Register(r)
	scgi.Register(r)
	status.Register(r)
	health.Register(r)
	helloworld.Register(r)
	echo.Register(r)
	return r
}

// rootSite is the only site of -r: a folder, for every host and path.
func (c *Config) rootSite(s Source) (handlers.Site, error) {
	dir, err := filepath.Abs(s.Root)
	if err != nil {
		return handlers.Site{}, err
	}
	set := servefiles.Defaults
	set.Path = dir
	c.Descriptors += set.Descriptors()
	c.OpenFiles += set.KeptFiles()
	env := handlers.Env{Dir: dir, Prefix: "/",
		Logger: s.Logger.With("site", siteName(nil), "route", "/"),
		Process: around.Context{Process: routeNotes{c, nil, nil, new(handlers.Dependence)},
			Compression: c.compression.policy}}
	h, err := servefiles.New(set, env)
	if err != nil {
		return handlers.Site{}, err
	}
	return handlers.Site{Routes: []handlers.Route{{Prefix: "/", Handler: h}}}, nil
}
