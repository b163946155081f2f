// Package module builds and serves a module of package handlers, for its tests.
package module

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// Build makes a handler of a registered module, with settings changed by change, which gets a *S of
// the module's settings type. change may be nil.
func Build[S any](t testing.TB, register func(*handlers.Registry), name string, env handlers.Env,
	change func(*S)) (conn.Handler, error) {
	t.Helper()
	var r handlers.Registry
	register(&r)
	m, ok := r.Module(name)
	if !ok {
		t.Fatalf("no module %s", name)
	}
	settings := m.NewSettings()
	if change != nil {
		change(settings.(*S))
	}
	return m.Build(settings, env)
}

// Start serves h at prefix, through a router. A client may be as slow as the machine is: a
// connection that it has not written to yet, or not all of a head or a handshake, stays longer than
// by default.
func Start(t testing.TB, m modes.Mode, prefix string, h conn.Handler) *server.Server {
	t.Helper()
	routes := []handlers.Route{{Prefix: prefix, Handler: h}}
	router := must.Get(handlers.NewRouter([]handlers.Site{{Routes: routes}}))(t)
	return server.Start(t, m, conn.Config{Handler: router.Serve, Limits: conn.Limits{
		KeepAliveTimeout: 2 * wait.Patience, HeaderTimeout: 2 * wait.Patience}})
}
