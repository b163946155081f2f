package proxy_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// withUpstreams is a server that is told of upstreams.
type withUpstreams struct {
	around.None
	all *[]metrics.Upstreams
}

func (w withUpstreams) Upstreams(u metrics.Upstreams) { *w.all = append(*w.all, u) }

// TestDrainedTunnel: an upgraded connection goes on at an address that is drained, or disabled,
// while other requests go elsewhere.
func TestDrainedTunnel(t *testing.T) {
	echo := start(t, func(p *originConn) {
		p.head()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		for {
			line, err := p.r.ReadString('\n')
			if err != nil {
				return
			}
			p.say("%s", line)
		}
	})
	other := start(t, always(hello))
	f := &front{log: new(logtext.Buffer)}
	var all []metrics.Upstreams
	env := handlers.Env{Prefix: "/", Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Process: around.In(around.Context{Process: withUpstreams{all: &all}})}
	h := must.Get(module.Build(t, proxy.Register, "proxy", env, func(s *proxy.Settings) {
		s.Address = []string{echo.addr, other.addr}
	}))(t)
	f.Server = module.Start(t, modes.Direct, "/", h)

	c := f.Dial()
	defer c.Close()
	c.Send("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	for line := ""; line != "\r\n"; {
		line = must.Get(c.R.ReadString('\n'))(t)
		if strings.HasPrefix(line, "HTTP/") && !strings.Contains(line, "101") {
			t.Fatal(line)
		}
	}
	for _, state := range []string{"drain", "down"} {
		if len(all) != 1 || !all[0].SetState(echo.addr, state) {
			t.Fatal(all)
		}
		for range 4 {
			if g := f.get("/"); g.body != "hello" {
				t.Errorf("%s: %+v", state, g)
			}
		}
		c.Send("still there\n")
		if line := must.Get(c.R.ReadString('\n'))(t); line != "still there\n" {
			t.Errorf("%s: %q", state, line)
		}
		if rows := all[0].Report(); rows[0].State != state || rows[0].Active != 1 {
			t.Errorf("%+v", rows)
		}
	}
	c.Close()
	f.get(last)
}
