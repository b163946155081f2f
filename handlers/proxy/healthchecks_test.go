package proxy_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHealthBodyPortHost: a check looks for a text in the body, asks at a port of its own, and
// names a host of its own.
func TestHealthBodyPortHost(t *testing.T) {
	served := start(t, always(hello))
	hosts := make(chan string, 1)
	answers := make(chan string)
	side := start(t, func(p *originConn) {
		req := p.request()
		if req == nil {
			return
		}
		select {
		case hosts <- req.Host:
		default:
		}
		p.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", <-answers)
	})
	t.Cleanup(func() { close(answers) })
	_, port, _ := net.SplitHostPort(side.addr)
	f, _ := checked(t, proxy.Register, []string{served.addr}, func(s *proxy.Settings) {
		s.Health.Body, s.Health.Host = "state: ready", "health.example:80"
		s.Health.Port = must.Get(strconv.Atoi(port))(t)
	})
	for range 3 {
		answers <- "state: starting"
	}
	f.logged(t, 1, out)
	if text := f.log.String(); !strings.Contains(text, `/up?x=1 has no \"state: ready\" in its body`) {
		t.Error(text)
	}
	for range 2 {
		answers <- "state: ready\n"
	}
	f.logged(t, 1, back)
	if host := <-hosts; host != "health.example:80" {
		t.Error(host)
	}
	if served.accepted.Load() != 0 {
		t.Error("a check went to the port of the requests")
	}
}

// TestHealthTCP: a connection is enough, whatever the upstream says.
func TestHealthTCP(t *testing.T) {
	o := start(t, func(*originConn) {})
	f, _ := checked(t, proxy.Register, []string{o.addr}, func(s *proxy.Settings) {
		s.Health.Type, s.Health.Path = "tcp", ""
	})
	wait.Until(t, "four checks", func() bool { return o.accepted.Load() >= 4 })
	if text := f.log.String(); strings.Contains(text, out) {
		t.Error(text)
	}
	o.stop()
	f.logged(t, 1, out)
}

// TestHealthKeys: what is wrong is said of the key.
func TestHealthKeys(t *testing.T) {
	for _, tt := range []struct {
		change func(s *proxy.Settings)
		err    string
	}{
		{func(s *proxy.Settings) { s.Health.Type, s.Health.Path = "tcp", "/up" },
			`health: type = "tcp" asks for nothing: expected no path, status, body or host`},
		{func(s *proxy.Settings) { s.Health.Body = "x" }, `health: expected a path, such as "/up"`},
		{func(s *proxy.Settings) { s.Health.Path, s.Health.Host = "/", "a b" },
			`health: host: expected a name, perhaps with a port, not "a b"`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address = []string{"127.0.0.1:1"}
				tt.change(s)
			})
		if err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
