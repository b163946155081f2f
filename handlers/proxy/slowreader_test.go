package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestSlowReaderGivesWay: a client that reads a long answer slowly keeps its slot at the upstream
// as long as nobody waits for it, and loses it to a request that has waited.
func TestSlowReaderGivesWay(t *testing.T) {
	before := reverseproxy.CrowdedAfter
	reverseproxy.CrowdedAfter = 0
	defer func() { reverseproxy.CrowdedAfter = before }()
	o := start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			if req.URL.Path != "/long" {
				p.say("%s", hello)
				return
			}
			p.say("HTTP/1.1 200 OK\r\n\r\n")
			for text := strings.Repeat("x", 64<<10); ; {
				if _, err := io.WriteString(p, text); err != nil {
					return
				}
			}
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.MaxConns, s.ResponseBuffering = 1, 64<<10
		s.QueueTimeout, s.ReadTimeout = time.Hour, time.Hour // of an origin that is slow, too
	})
	f.Server.Stop(0)
	f.Server = server.Start(t, modes.Direct,
		conn.Config{Handler: f.handler, Limits: conn.Limits{MinRate: -1, WriteTimeout: time.Hour}})
	slow := f.DialSmall()
	slow.Send("GET /long HTTP/1.1\r\nHost: test.example\r\n\r\n")
	must.Get(slow.R.ReadByte())(t)
	for range 4 {
		f.Skip(20 * time.Second)
	}
	if n := o.open.Load(); n != 1 {
		t.Fatalf("nobody waits, and %d connections are left", n)
	}
	other := f.Dial()
	other.Send("GET /x HTTP/1.1\r\nHost: test.example\r\n\r\n")
	wait.Until(t, "the slot is free", func() bool {
		f.Skip(5 * time.Second)
		return o.accepted.Load() == 2
	})
	if got := read(other.R, http.MethodGet); got.body != "hello" {
		t.Errorf("%+v", got)
	}
	if text := f.log.String(); !strings.Contains(text, "reads too slowly") {
		t.Error(text)
	}
}
