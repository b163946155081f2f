// Package status is the module `status`: what the server says of itself, as a page, as JSON and as
// text for Prometheus.
//
//	[[site.route]]
//	prefix = "/status"
//	module = "status"
//	limit = { allow = ["127.0.0.0/8", "::1"] }
package status

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/loop"
)

// Settings are the module's keys; it has none of its own.
type Settings struct{}

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "status", Settings{}, New, handlers.Uncached)
}

// The page. No part of it is inline, so that it works with any Content-Security-Policy that allows
// the server itself.
//
//go:embed page
var page embed.FS

// files are the parts of the page, by path below the prefix: file name and Content-Type.
var files = map[string][2]string{
	"/":         {"index.html", "text/html; charset=utf-8"},
	"/page.css": {"page.css", "text/css; charset=utf-8"},
	"/page.js":  {"page.js", "text/javascript; charset=utf-8"},
	"/icon.svg": {"icon.svg", "image/svg+xml"},
}

// module is a route's state.
type module struct{ json, text form }

// New makes the handler. It may run on any number of loops at once.
func New(_ Settings, env handlers.Env) (conn.Handler, error) {
	snapshot := around.Of(env).Count()
	var bounds []time.Duration
	for i := range metrics.TimeBounds {
		bounds = append(bounds, metrics.FirstBound<<i)
	}
	m := &module{
		json: form{kind: "application/json", snapshot: snapshot,
			write: func(s *metrics.Snapshot) ([]byte, error) {
				return json.Marshal(s)
			}},
		text: form{kind: metrics.ContentType, snapshot: snapshot,
			write: func(s *metrics.Snapshot) ([]byte, error) {
				return s.AppendText(nil, bounds), nil
			}},
	}
	return m.serve, nil
}

// form is one form of what the server says of itself. It takes milliseconds to write where there
// are a thousand routes or many topics. So it is written off the loops, and once for all requests
// that come meanwhile.
type form struct {
	kind     string // the Content-Type
	snapshot func() (*metrics.Snapshot, error)
	write    func(*metrics.Snapshot) ([]byte, error)

	mu   sync.Mutex
	next *loop.Promise[[]byte] // is being written; nil: nothing is
}

func (f *form) answer(req *conn.Request, resp *conn.Response) int {
	f.mu.Lock()
	p := f.next
	if p == nil {
		p = new(loop.Promise[[]byte])
		f.next = p
		req.Thread.Loop().Layer().StartGoroutine(func() { f.settle(p) })
	}
	f.mu.Unlock()
	// A client that has ended its sending half still reads.
	defer req.KeepWaiting(req.KeepWaiting(true))
	text, err := p.Await(req.Thread, -1)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	resp.Header().Set("Content-Type", f.kind)
	resp.SetBody(text)
	return http.StatusOK
}

func (f *form) settle(p *loop.Promise[[]byte]) {
	var text []byte
	s, err := f.snapshot()
	if err == nil {
		text, err = f.write(s)
	}
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	if err != nil {
		p.Reject(err)
	} else {
		p.Resolve(text)
	}
}

func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if method := req.Method(); method != http.MethodGet && method != http.MethodHead {
		resp.Header().Set("Allow", "GET, HEAD")
		return http.StatusMethodNotAllowed
	}
	h := resp.Header()
	h.Set("Cache-Control", "no-store")
	switch path := req.SubPath(); path {
	case "/json":
		return m.json.answer(req, resp)
	case "/metrics":
		return m.text.answer(req, resp)
	default:
		file, ok := files[path]
		if !ok {
			return http.StatusNotFound
		}
		if path == "/" && req.Path() == req.Prefix() { // links of the page are relative to the slash
			h.Set("Location", (&url.URL{Path: req.Prefix() + "/"}).EscapedPath())
			return http.StatusFound
		}
		h.Set("Content-Type", file[1])
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
			"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "+
			"frame-ancestors 'none'")
		text, err := page.ReadFile("page/" + file[0])
		if err != nil {
			return http.StatusInternalServerError
		}
		resp.SetBody(text)
	}
	return http.StatusOK
}
