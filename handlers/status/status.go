// Package status is the module `status`: what the server says of itself, as a page, as JSON and as
// text for Prometheus.
//
//	[[site.route]]
//	prefix = "/status"
//	module = "status"
//	limit = { allow = ["127.0.0.0/8", "::1"] }
package status

import (
	_ "embed"
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

//go:embed page.html
var page []byte

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
		return m.json.answer(req, resp)
	case "/metrics":
		return m.text.answer(req, resp)
	default:
		return http.StatusNotFound
	}
	return http.StatusOK
}
