package proxy_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUpstreamClosesEarly: one that closes connections right after its answers, as uWSGI's HTTP
// does, gets new ones for requests that must not be sent twice, however it was seen to do so.
func TestUpstreamClosesEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		closes bool // after the answer, and otherwise when the next request is there
		ask    bool
	}{
		{"a request is cut", false, true},
		{"a request finds it closed", true, true},
		{"nobody asks", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var closes atomic.Bool
			closes.Store(test.closes)
			o := start(t, func(p *originConn) {
				if req := p.request(); req != nil {
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					if !closes.Load() {
						p.request()
					}
				}
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.IdleTimeout = wait.Patience
			})
			ask := func(method string) {
				t.Helper()
				if a := f.Request(method+" /", nil, ""); a.StatusCode != 200 {
					t.Errorf("%s: %s", method, a.Status)
				}
			}
			ask("GET")
			if test.closes {
				wait.Until(t, "it is closed", func() bool { return o.open.Load() == 0 })
			}
			if !test.ask {
				time.Sleep(1200 * time.Millisecond) // kept ones are looked at each second
			}
			closes.Store(false)
			if test.ask {
				ask("GET")
			}
			for range 3 {
				ask("POST")
			}
		})
	}
}

// TestEarlyCloseIsForgotten: a connection that an upstream has closed early speaks no longer
// against those that it keeps once one of them has served another request.
func TestEarlyCloseIsForgotten(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	o := start(t, func(p *originConn) {
		first := connections.Add(1) == 1
		for req := p.request(); req != nil; req = p.request() {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if first {
				p.request()
				return
			}
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.IdleTimeout = wait.Patience
	})
	for _, ask := range []struct {
		method string
		want   int32 // connections by then
	}{{"GET", 1}, {"GET", 2}, {"GET", 2}, {"POST", 2}, {"POST", 2}} {
		a := f.Request(ask.method+" /", nil, "")
		if n := connections.Load(); a.StatusCode != 200 || n != ask.want {
			t.Errorf("%s: %s, %d connections, want %d", ask.method, a.Status, n, ask.want)
		}
	}
}
