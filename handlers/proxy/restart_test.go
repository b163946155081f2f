package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestRestarts: with try_for no request fails while the only application is started anew again and
// again under load, be it stopped in order or killed in the middle of requests.
func TestRestarts(t *testing.T) {
	restarts := 8
	if ci.Enabled() {
		restarts = 100
	}
	for _, killed := range []bool{false, true} {
		ln := must.Get(net.Listen("tcp", "127.0.0.2:0"))(t) // no client has a port of it
		address := ln.Addr().String()
		var served atomic.Int64
		app := func(ln net.Listener) *http.Server {
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
				served.Add(1)
			})}
			go s.Serve(ln)
			return s
		}
		s := app(ln)
		f := serve(t, modes.Direct, "/", []string{address}, func(s *proxy.Settings) { s.TryFor = wait.Patience })
		stop := make(chan bool)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if g := f.ask("PUT /", "Content-Length: 5\r\n", "hello"); g.status != 200 || g.body != "hello" {
						t.Errorf("killed %t: %+v", killed, g)
						return
					}
				}
			})
		}
		for range restarts {
			before := served.Load()
			wait.Until(t, "requests are served", func() bool { return served.Load() > before+4 || t.Failed() })
			if killed {
				s.Close()
			} else {
				must.Do(t, s.Shutdown(context.Background()))
			}
			ln, err := net.Listen("tcp", address)
			must.Do(t, err)
			s = app(ln)
		}
		close(stop)
		clients.Wait()
		s.Close()
	}
}

// TestTryForStatus: with retry = ["503"] an application that says so while it starts is asked again.
func TestTryForStatus(t *testing.T) {
	var n atomic.Int32
	o := start(t, func(p *peer) {
		for p.request() != nil {
			if n.Add(1) < 4 {
				p.say("HTTP/1.1 503 Starting\r\nContent-Length: 0\r\n\r\n")
			} else {
				p.say(hello)
			}
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.TryFor, s.Retry = wait.Patience, []string{"503"}
	})
	if g := f.get("/"); g.status != 200 || n.Load() != 4 {
		t.Errorf("%+v after %d requests", g, n.Load())
	}
}

// TestFailStatus: statuses of the list pass to the client, and count for max_fails and the circuit.
func TestFailStatus(t *testing.T) {
	bad := start(t, always("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
	good := start(t, always(hello))
	f := serve(t, modes.Direct, "/", []string{bad.addr, good.addr}, func(s *proxy.Settings) {
		s.FailStatus, s.MaxFails, s.FailTimeout = []int{500}, 2, time.Hour
	})
	failed := 0
	for range 12 {
		if f.get("/").status == 500 {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d answers of 500, want 2", failed)
	}

	f = serve(t, modes.Direct, "/", []string{bad.addr}, func(s *proxy.Settings) {
		s.FailStatus, s.Circuit.Errors, s.Circuit.Requests, s.Circuit.Open = []int{500}, 50, 4, time.Hour
	})
	statuses := ""
	for range 6 {
		g := f.get("/")
		statuses += string("x0123456789"[g.status/100+1]) + string("0123456789"[g.status%10])
		if g.status == 503 && g.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if statuses != "505050505353" {
		t.Error(statuses)
	}
	if text := f.log.String(); !strings.Contains(text, "upstream gets no requests, too many have failed") ||
		!strings.Contains(text, "failed=4 requests=4") {
		t.Error(text)
	}
}

// TestFailureSettings: what is wrong is said of the key.
func TestFailureSettings(t *testing.T) {
	for _, tt := range []struct {
		change func(s *proxy.Settings)
		err    string
	}{
		{func(s *proxy.Settings) { s.FailStatus = []int{200} }, "fail_status: expected statuses between 400 and 599, not 200"},
		{func(s *proxy.Settings) { s.Circuit.Open = time.Second }, "circuit: missing: errors, the share of requests in percent"},
		{func(s *proxy.Settings) { s.SlowStart, s.Balance = 1, "ip_hash" }, `slow_start: it has no effect with balance = "ip_hash"`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"}, func(s *proxy.Settings) {
			s.Address = []string{"127.0.0.1:1"}
			tt.change(s)
		})
		if err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
