package health_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/health"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// process is a server with these loops.
type process struct {
	around.None
	loops    atomic.Pointer[[]*loop.Loop]
	stopping atomic.Bool
}

func (p *process) Loops() []*loop.Loop { return *p.loops.Load() }
func (p *process) Stopping() bool      { return p.stopping.Load() }

func TestHealth(t *testing.T) {
	p := new(process)
	h := must.Get(health.New(health.Settings{LoopTimeout: 10 * time.Millisecond},
		handlers.Env{Process: around.In(around.Context{Process: p})}))(t)
	s := server.Start(t, modes.Direct, conn.Config{Handler: h})
	var hold *loop.Loop // does not run
	for _, row := range []struct {
		name, line string
		stopping   bool
		held       bool
		status     int
		body       string
	}{
		{"ready", "GET /ready", false, false, 200, "ready\n"},
		{"stopping", "GET /ready", true, false, 503, "stopping\n"},
		{"live", "GET /live", true, false, 200, "live\n"},
		{"head", "HEAD /live", false, false, 200, ""},
		{"held up", "GET /live", false, true, 503, "a loop is held up\n"},
		{"ready all the same", "GET /ready", false, true, 200, "ready\n"},
		{"still held up", "GET /live", false, true, 503, "a loop is held up\n"},
		{"method", "POST /live", false, false, 405, ""},
		{"path", "GET /", false, false, 404, ""},
	} {
		p.stopping.Store(row.stopping)
		var loops []*loop.Loop
		if row.held {
			if hold == nil {
				hold = must.Get(loop.New(loop.Options{}))(t)
				defer hold.Close()
			}
			loops = []*loop.Loop{hold}
		}
		p.loops.Store(&loops)
		a := s.Request(row.line, nil, "")
		if a.StatusCode != row.status || row.body != "" && a.Text != row.body {
			t.Errorf("%s: %d %q, want %d %q", row.name, a.StatusCode, a.Text, row.status, row.body)
		}
		if row.status != 404 && row.status != 405 && a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", row.name, a.Header)
		}
	}
}
