// Package status is the module `status`: what the server says of itself, as a page, as JSON and as
// text for Prometheus.
package status

import (
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/metrics"
	"github.com/lwango/lwango/loop"
)

// Settings are the module's keys; it has none of its own.
type Settings struct{}

// Register puts the module into r.
func Register(r *handlers.Registry) { handlers.RegisterModule(r, "status", Settings{}, New) }

//go:embed page.html
var page []byte

// module is a route's state, which does not change.
type module struct {
	snapshot func(t *loop.Thread) (*metrics.Snapshot, error)
	bounds   []time.Duration
}

// New makes the handler. It may run on any number of loops at once.
func New(_ Settings, env handlers.Env) (conn.Handler, error) {
	m := &module{snapshot: unserved}
	if env.Count != nil {
		m.snapshot = env.Count()
	}
	for i := range conn.NumTimeBounds {
		m.bounds = append(m.bounds, conn.TimeBound(i))
	}
	return m.serve, nil
}

func unserved(*loop.Thread) (*metrics.Snapshot, error) {
	return nil, errors.New("status: there is no server")
}

func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if method := req.Method(); method != http.MethodGet && method != http.MethodHead {
		resp.Header().Set("Allow", "GET, HEAD")
		return http.StatusMethodNotAllowed
	}
	h := resp.Header()
	h.Set("Cache-Control", "no-store")
	switch req.SubPath() {
	case "/":
		if req.Path() == req.Prefix() { // links of the page are relative to the slash
			h.Set("Location", (&url.URL{Path: req.Prefix() + "/"}).EscapedPath())
			return http.StatusFound
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "+
				"connect-src 'self'; frame-ancestors 'none'")
		resp.SetBody(page)
	case "/json":
		s, err := m.snapshot(req.Thread)
		if err != nil {
			return http.StatusServiceUnavailable
		}
		text, err := json.Marshal(s)
		if err != nil {
			return http.StatusInternalServerError
		}
		h.Set("Content-Type", "application/json")
		resp.SetBody(text)
	case "/metrics":
		s, err := m.snapshot(req.Thread)
		if err != nil {
			return http.StatusServiceUnavailable
		}
		h.Set("Content-Type", metrics.ContentType)
		resp.SetBody(s.AppendText(nil, m.bounds))
	default:
		return http.StatusNotFound
	}
	return http.StatusOK
}
