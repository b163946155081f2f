package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCacheAndModuleTraits: a module's registration says whether a site's cache leaves out its
// routes, and whether the cache lets the first client's own request fetch an answer.
func TestCacheAndModuleTraits(t *testing.T) {
	modules := new(handlers.Registry)
	var requests atomic.Int32
	register := func(name string, traits ...handlers.Trait) {
		handlers.RegisterModule(modules, name, struct{}{},
			func(struct{}, handlers.Env) (conn.Handler, error) {
				return func(req *conn.Request, resp *conn.Response) int {
					resp.Header().Set("Cache-Control", "max-age=100")
					by := "the client's request"
					if req.Layer().IsBackground() {
						by = "the cache's request"
					}
					return resp.Text(200, fmt.Sprint(requests.Add(1), " ", by))
				}, nil
			}, traits...)
	}
	register("plain")
	register("uncached", handlers.Uncached)
	register("buffering", handlers.Buffering)
	register("both", handlers.Uncached, handlers.Buffering)
	var text strings.Builder
	text.WriteString("[[site]]\ncache = true\n")
	for _, name := range modules.ModuleNames() {
		fmt.Fprintf(&text, "[[site.route]]\nprefix = '/%s'\nmodule = '%[1]s'\n", name)
	}
	text.WriteString("[[site.route]]\nprefix = '/own'\nmodule = 'both'\ncache = true\n")
	at, _ := serveProgram(t, server.NewProgram(modules), text.String())
	const stored, hit = "lwango; fwd=uri-miss; stored", "lwango; hit; ttl="
	for _, step := range []struct{ path, body, status string }{
		{"/plain", "1 the cache's request", stored},
		{"/plain", "1 the cache's request", hit},
		{"/uncached", "2 the client's request", ""},
		{"/uncached", "3 the client's request", ""},
		{"/buffering", "4 the client's request", stored},
		{"/buffering", "4 the client's request", hit},
		{"/both", "5 the client's request", ""},
		{"/both", "6 the client's request", ""},
		{"/own", "7 the client's request", stored},
		{"/own", "7 the client's request", hit},
	} {
		resp := must.Get(http.Get("http://" + at + step.path))(t)
		body, status := must.Body(t, resp), resp.Header.Get("Cache-Status")
		if body != step.body || !strings.HasPrefix(status, step.status) ||
			(status == "") != (step.status == "") {
			t.Errorf("%s: %q, Cache-Status %q; want %q, %q", step.path, body, status, step.body,
				step.status)
		}
	}
}
