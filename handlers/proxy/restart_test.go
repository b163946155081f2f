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
		app := func(ln net.Listener) *http.Server {
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
			})}
			go s.Serve(ln)
			return s
		}
		s := app(ln)
		f := serve(t, modes.Direct, "/", []string{address}, func(s *proxy.Settings) {
			s.TryFor = wait.Patience
		})
		stop := make(chan bool)
		var clients sync.WaitGroup
		var answers [4]atomic.Int64 // that each client has got
		for i := range answers {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if g := f.ask("PUT /", "Content-Length: 5\r\n", "hello"); g.status != 200 ||
						g.body != "hello" {
						t.Errorf("killed %t: %+v", killed, g)
						return
					}
					answers[i].Add(1)
				}
			})
		}
		for range restarts {
			var before [len(answers)]int64
			for i := range answers {
				before[i] = answers[i].Load()
			}
			// No request is cut twice: it would be sent again once only.
			wait.Until(t, "all clients are served", func() bool {
				for i := range answers {
					if answers[i].Load() <= before[i] && !t.Failed() {
						return false
					}
				}
				return true
			})
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

// TestTryForAnswers: try_for is for an application that is not there: one that answers with a
// status of retry is asked once, and one that cuts the connection once more, unless retry_tries
// says otherwise.
func TestTryForAnswers(t *testing.T) {
	for _, tt := range []struct {
		answer       string // "": the connection ends
		tries        int
		status, want int
	}{
		{"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 3, 503, 1},
		{"", 3, 502, 2},
		{"", -1, 502, 2},
		{"", 1, 502, 1},
	} {
		var n atomic.Int32
		o := start(t, func(p *originConn) {
			for p.request() != nil {
				n.Add(1)
				if tt.answer == "" {
					return
				}
				p.say("%s", tt.answer)
			}
		})
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.TryFor, s.Retry, s.RetryTries = wait.Patience, []string{"cut", "503"}, tt.tries
		})
		if g := f.get("/"); g.status != tt.status || int(n.Load()) != tt.want {
			t.Errorf("%q, %d tries: %d after %d requests, want %d after %d", tt.answer, tt.tries, g.status,
				n.Load(), tt.status, tt.want)
		}
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
	if text := f.log.String(); !strings.Contains(text,
		"upstream gets no requests, too many have failed") ||
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
		{func(s *proxy.Settings) { s.FailStatus = []int{200} },
			"fail_status: expected statuses between 400 and 599, not 200"},
		{func(s *proxy.Settings) { s.Circuit.Open = time.Second },
			"circuit: missing: errors, the share of requests in percent"},
		{func(s *proxy.Settings) { s.SlowStart, s.Balance = 1, "ip_hash" },
			`slow_start: it has no effect with balance = "ip_hash"`},
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
