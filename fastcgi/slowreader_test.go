package fastcgi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestSlowReaderGivesWay: a client that reads a long answer slowly keeps its worker as long as
// nobody waits for it, and loses it to a request that has waited.
func TestSlowReaderGivesWay(t *testing.T) {
	before := reverseproxy.CrowdedAfter
	reverseproxy.CrowdedAfter = 0
	defer func() { reverseproxy.CrowdedAfter = before }()
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		if c.Read().Get("QUERY_STRING") != "long" {
			c.Reply(okHead + "hello")
			return
		}
		for c.Stdout(okHead); ; {
			c.Stdout(strings.Repeat("x", 32<<10))
		}
	})
	r := new(handlers.Registry)
	fastcgi.Register(r)
	p := route(t, r, "/", []string{up.Address}, nil, func(s *fastcgi.Settings) {
		s.CheckFile = false
		s.MaxConns, s.QueueTimeout, s.ResponseBuffering = 1, time.Hour, 64<<10
	})
	p.Server = server.Start(t, modes.Direct,
		conn.Config{Handler: p.handler, Limits: conn.Limits{MinRate: -1, WriteTimeout: time.Hour}})
	slow := p.DialSmall()
	slow.Send("GET /x.php?long HTTP/1.1\r\nHost: test.example\r\n\r\n")
	must.Get(slow.R.ReadByte())(t)
	for range 4 {
		p.Skip(20 * time.Second)
	}
	if up.Wait(0, func(_, open, _ int) bool { return open == 0 }) {
		t.Fatal("nobody waits, and the worker has been let go")
	}
	other := p.Dial()
	other.Send("GET /x.php HTTP/1.1\r\nHost: test.example\r\n\r\n")
	wait.Until(t, "a worker is free", func() bool {
		p.Skip(5 * time.Second)
		return up.Wait(0, func(_, _, requests int) bool { return requests == 2 })
	})
	if g := read(other.R, "GET"); g.body != "hello" {
		t.Error(g)
	}
}
