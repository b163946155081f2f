// Package health is the module `health`: whether the server is alive, and whether it is to get new
// clients, for a load balancer or whatever starts it anew.
//
//	[[site.route]]
//	prefix = "/health"
//	module = "health"
//	limit = { allow = ["10.0.0.0/8"] }
package health

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/loop"
)

// Settings are the module's keys.
type Settings struct {
	// LoopTimeout is how long a loop may take to its next turn before /live fails.
	LoopTimeout time.Duration `toml:"loop_timeout" min:"1ms" max:"1m" default:"1s"`
}

// Defaults are the settings of a route without keys.
var Defaults = tags.Defaults[Settings]()

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "health", Defaults, New, handlers.Uncached)
}

// module is a route's state.
type module struct {
	settings Settings
	env      handlers.Env
	stopping func() bool

	mu   sync.Mutex
	turn *loop.Promise[struct{}] // resolved when all loops have turned; nil: none is asked
}

// New makes the handler. It may run on any number of loops at once.
func New(s Settings, env handlers.Env) (conn.Handler, error) {
	m := &module{settings: s, env: env, stopping: around.Of(env).Stopping}
	return m.serve, nil
}

func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if method := req.Method(); method != http.MethodGet && method != http.MethodHead {
		resp.Header().Set("Allow", "GET, HEAD")
		return http.StatusMethodNotAllowed
	}
	h := resp.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	switch req.SubPath() {
	case "/ready":
		if m.stopping() {
			resp.SetBody([]byte("stopping\n"))
			return http.StatusServiceUnavailable
		}
		resp.SetBody([]byte("ready\n"))
	case "/live":
		if _, err := m.turns().Await(req.Thread, m.settings.LoopTimeout); err != nil {
			resp.SetBody([]byte("a loop is held up\n"))
			return http.StatusServiceUnavailable
		}
		resp.SetBody([]byte("live\n"))
	default:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// turns returns a promise that is resolved once all loops have taken a turn. Clients that ask while
// one is pending share it, so a loop that is held up gets one question from all of them.
func (m *module) turns() *loop.Promise[struct{}] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turn != nil && !m.turn.Ready() {
		return m.turn
	}
	p := new(loop.Promise[struct{}])
	m.turn = p
	loops := m.env.Loops()
	var left atomic.Int32
	left.Store(int32(len(loops)) + 1)
	turned := func() {
		if left.Add(-1) == 0 {
			p.Resolve(struct{}{})
		}
	}
	for _, l := range loops {
		if l.Post(turned) != nil {
			turned() // it has ended: the server stops
		}
	}
	turned()
	return p
}
