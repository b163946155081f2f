package proxy_test

import (
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// answersBare answers what it reads, each time as a whole, and allocates nothing.
func answersBare(answer string) func(*originConn) {
	return func(p *originConn) {
		buf, out := make([]byte, 4<<10), []byte(answer)
		for {
			n, err := p.Read(buf)
			if err != nil || string(buf[:6]) == "POST /" { // of last
				return
			}
			if n > 4 && string(buf[n-4:n]) == "\r\n\r\n" {
				p.Write(out)
			}
		}
	}
}

const usual = "GET /some/path?a=b HTTP/1.1\r\nHost: test.example\r\nUser-Agent: a usual " +
	"client\r\n" +
	"Accept: */*\r\nCookie: a=b\r\n\r\n"

// kept starts a server in front of an upstream that answers so, and keeps its connection.
func reused(t testing.TB, answer string) *front {
	o := start(t, answersBare(answer))
	f := serve(t, modes.Direct, "/", []string{o.addr},
		func(s *proxy.Settings) { s.IdleTimeout = wait.Patience })
	return f
}

const usualAnswer = "HTTP/1.1 200 OK\r\nServer: x\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n" +
	"Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!"

// TestCost: what a request on a kept connection allocates, and how often epoll is asked for it.
func TestCost(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled,
		"short reads and writes cost more, and so does the race detector")
	f := reused(t, usualAnswer)
	var before, after loop.Stats
	f.Request("GET /", nil, "")
	f.Settled("counted", func(l *loop.Loop) bool { before = l.Stats(); return true })
	allocs := f.Allocs(usual)
	f.Settled("counted", func(l *loop.Loop) bool { after = l.Stats(); return true })
	f.ask("POST "+last, "", "")
	// The texts of the two heads; and one connection of the client, which is closed.
	if ctls := after.Ctls - before.Ctls; allocs > 2 || ctls > 2 {
		t.Errorf("%v allocations for a request, %d calls of epoll_ctl for all", allocs, ctls)
	}
}

func BenchmarkKept(b *testing.B) {
	f := reused(b, usualAnswer)
	c := f.Dial()
	request, buf := []byte(usual), make([]byte, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(request)
		if _, err := c.Conn.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
	f.ask("POST "+last, "", "")
}
