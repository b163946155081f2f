package cache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// fronted is a cached route of the module proxy.
type fronted struct {
	cached
	asked atomic.Int32 // requests to the application
	mu    sync.Mutex
	lines []conn.AccessEntry
}

// front serves the route, whose application is app. change may be nil.
func front(t testing.TB, m modes.Mode, set cache.Settings, app http.HandlerFunc,
	change func(*proxy.Settings)) *fronted {
	t.Helper()
	f := new(fronted)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		app(w, r)
	}))
	t.Cleanup(origin.Close)
	env := handlers.Env{Prefix: "/", Process: around.In(around.Context{Buffering: true})}
	h := must.Get(module.Build(t, proxy.Register, "proxy", env, func(s *proxy.Settings) {
		s.Address = []string{origin.Listener.Addr().String()}
		s.IdleTimeout = 50 * time.Millisecond // nothing is left behind when the tests end
		if change != nil {
			change(s)
		}
	}))(t)
	f.store = open(t)
	layer := must.Get(cache.New(f.store, patiently(set), env))(t)(h)
	router := must.Get(
		handlers.NewRouter([]handlers.Site{{Routes: []handlers.Route{{Prefix: "/", Handler: layer}}}}))(t)
	f.Server = server.Start(t, m, conn.Config{Handler: router.Serve, AccessLog: f,
		Limits: conn.Limits{KeepAliveTimeout: 2 * wait.Patience}})
	return f
}

// LogRequest and HasRoom make f an access log.
func (f *fronted) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, *e)
	return true
}

func (f *fronted) HasRoom(*loop.Loop, conn.Share) bool { return true }

// cacheable are the fields of an answer that is kept.
func cacheable(w http.ResponseWriter) { w.Header().Set("Cache-Control", "max-age=100") }

// TestLeads: of many that miss together one asks the application. All get the whole answer, of
// unknown length or not, and those that have only waited an Age.
func TestLeads(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, size := range []int{10, 40 << 10, 700 << 10} {
			for _, declared := range []bool{false, true} {
				text := strings.Repeat("x", size)
				release := make(chan struct{})
				s := front(t, m, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
					<-release
					cacheable(w)
					if declared {
						w.Header().Set("Content-Length", fmt.Sprint(size))
					}
					_, _ = io.WriteString(w, text[:size/2])
					w.(http.Flusher).Flush()
					_, _ = io.WriteString(w, text[size/2:])
				}, nil)
				clients := []*server.Client{s.Dial()}
				clients[0].Send(ask)
				wait.Until(t, "the first request", func() bool { return s.asked.Load() == 1 })
				for range 10 {
					c := s.Dial()
					c.Send(ask)
					clients = append(clients, c)
				}
				s.Settle()
				close(release)
				for i, c := range clients {
					resp := must.Get(http.ReadResponse(c.R, nil))(t)
					body, err := io.ReadAll(resp.Body)
					if err != nil || string(body) != text {
						t.Errorf("client %d of %d: %d bytes of %d, %v", i, len(clients), len(body), size, err)
					}
					if i > 0 && resp.Header.Get("Age") == "" {
						t.Errorf("client %d: no Age in an answer that another one has asked for: %v", i, resp.Header)
					}
				}
				wait.Until(t, "the answer is kept", func() bool {
					return s.stats().Fills == 1 && s.stats().Filling == 0
				})
				if a, said := get(t, &s.cached, "/x"); a.Text != text || !strings.Contains(said, "hit") {
					t.Errorf("afterwards: %d bytes, %s", len(a.Text), a.Header.Get("Cache-Status"))
				}
				if n := s.asked.Load(); n != 1 {
					t.Errorf("%d requests to the application", n)
				}
			}
		}
	}, modes.Direct, modes.Several, modes.OverTLS)
}

// TestSlowLeader: the one that has asked reads nothing. It holds up neither those that follow nor
// the application, whose only place is free as soon as it has answered; and the answer is kept.
func TestSlowLeader(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 100<<10) // less than an eighth of the store
	for _, buffering := range []int64{64 << 20, 0} {
		s := front(t, modes.Several, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/x" {
				cacheable(w)
				_, _ = io.WriteString(w, text)
			}
		}, func(s *proxy.Settings) { s.MaxConns, s.ResponseBuffering = 1, handlers.Size(buffering) })
		slow := s.Dial()
		slow.Send(ask)
		wait.Until(t, "the answer is kept", func() bool { return s.stats().Fills == 1 })
		if a, said := get(t, &s.cached, "/x"); a.Text != text || !strings.Contains(said, "hit") {
			t.Errorf("%d: %d bytes, %s", buffering, len(a.Text), a.Header.Get("Cache-Status"))
		}
		if a, _ := get(t, &s.cached, "/other"); a.StatusCode != 200 {
			t.Errorf("%d: another request of the application: %d", buffering, a.StatusCode)
		}
		if got, err := (&client{slow}).read(); err != nil || got != text {
			t.Errorf("%d: the slow one has got %d bytes, %v", buffering, len(got), err)
		}
	}
}

// TestSlowReaderOfUnkept: a client that does not read an answer that is not kept holds no place of
// the application.
func TestSlowReaderOfUnkept(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 512<<10)
	for _, field := range []string{"", `If-None-Match: "x"`, "Range: bytes=0-8000000"} {
		s := front(t, modes.Direct, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "private")
			if r.URL.Path == "/x" {
				_, _ = io.WriteString(w, text)
			}
		}, func(s *proxy.Settings) { s.MaxConns = 1 })
		slow := s.Dial()
		slow.Send(strings.TrimSuffix(ask, "\r\n") + strings.TrimSuffix(field+"\r\n", "\r\n\r\n") + "\r\n")
		wait.Until(t, "the request", func() bool { return s.asked.Load() >= 1 })
		if a, _ := get(t, &s.cached, "/other"); a.StatusCode != 200 {
			t.Errorf("%s: another request of the application: %d", field, a.StatusCode)
		}
		if got, err := (&client{slow}).read(); err != nil || got != text {
			t.Errorf("%s: the slow one has got %d bytes, %v", field, len(got), err)
		}
	}
}

// breakOff sends text in place of an answer, and closes the connection of the application.
func breakOff(t *testing.T, w http.ResponseWriter, text string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(c, text)
	c.Close()
}

// TestBrokenOff: an application that breaks off is a 502 as long as the client has got nothing, and
// the log says so, with the application and what the cache has done. Those that wait ask for
// themselves.
func TestBrokenOff(t *testing.T) {
	for _, field := range []string{"", `If-None-Match: "x"`, "Range: bytes=0-10"} {
		release := make(chan struct{})
		s := front(t, modes.Direct, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			breakOff(t, w, "HTTP/1.1 200 OK\r\nCache-Contr")
		}, nil)
		clients := []*server.Client{s.Dial(), s.Dial()}
		clients[0].Send(strings.TrimSuffix(ask, "\r\n") + strings.TrimSuffix(field+"\r\n", "\r\n\r\n") +
			"\r\n")
		wait.Until(t, "the first request", func() bool { return s.asked.Load() == 1 })
		clients[1].Send(ask)
		s.Settle()
		close(release)
		for i, c := range clients {
			resp, err := http.ReadResponse(c.R, nil)
			if err != nil || resp.StatusCode != 502 {
				t.Errorf("%s: client %d: %v, %v", field, i, resp, err)
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		wait.Until(t, "the lines", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.lines) == 2
		})
		for i, e := range s.lines {
			if e.Status != 502 || e.Upstream == "" || e.Cache != conn.CacheMiss {
				t.Errorf("%s: line %d: status %d, upstream %q, cache %s", field, i, e.Status, e.Upstream,
					e.Cache)
			}
		}
	}
}

// TestLeaderLeavesFirst: the request to the application goes on while anybody waits for the answer,
// and ends when the last one has left.
func TestLeaderLeavesFirst(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, tt := range []struct {
			headed, stays bool
		}{{false, true}, {true, true}, {false, false}, {true, false}} {
			begin, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
			s := front(t, m, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
				go func(ctx context.Context) { <-ctx.Done(); close(gone) }(r.Context())
				if tt.headed {
					cacheable(w)
					_, _ = io.WriteString(w, strings.Repeat("a", half))
					w.(http.Flusher).Flush()
				}
				close(begin)
				<-release
				cacheable(w)
				if !tt.headed {
					_, _ = io.WriteString(w, strings.Repeat("a", half))
				}
				_, _ = io.WriteString(w, strings.Repeat("b", half))
			}, nil)
			leads, follows := s.Dial(), s.Dial()
			leads.Send(ask)
			<-begin
			follows.Send(ask)
			if tt.headed {
				_, _ = leads.R.ReadByte()
				_, _ = follows.R.ReadByte()
				_ = follows.R.UnreadByte()
			}
			s.Settle()
			leads.Reset()
			s.Settle()
			select {
			case <-gone:
				t.Errorf("%+v: the request has ended with the client that has asked", tt)
			default:
			}
			if !tt.stays {
				follows.Reset()
				select {
				case <-gone:
				case <-time.After(wait.Patience):
					t.Errorf("%+v: the request goes on for nobody", tt)
				}
			}
			close(release)
			if tt.stays {
				if text, err := (&client{follows}).read(); err != nil || text != whole {
					t.Errorf("%+v: %d bytes, %v", tt, len(text), err)
				}
				wait.Until(t, "the answer is kept", func() bool { return s.stats().Fills == 1 })
			}
			wait.Until(t, "the end", func() bool { return s.stats().Filling == 0 })
		}
	}, modes.Direct, modes.Several)
}

// TestLeadsValidation: what is stale is asked for with its validators; a 304 or a failure leads to
// what is kept, another answer takes its place.
func TestLeadsValidation(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var how atomic.Value
		how.Store("new")
		var seen atomic.Value
		s := front(t, m, cache.Settings{Grace: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
			seen.Store(r.Header.Get("If-None-Match"))
			w.Header().Set("Cache-Control", "max-age=10")
			w.Header().Set("ETag", `"1"`)
			w.Header()["Date"] = nil // the store's clock is ahead of it
			switch how.Load() {
			case "same":
				w.WriteHeader(304)
			case "fails":
				w.WriteHeader(500)
				_, _ = io.WriteString(w, strings.Repeat("no", 100<<10))
			case "breaks":
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.WriteString(w, how.Load().(string))
			}
		}, nil)
		for i, step := range []struct{ how, want, seen string }{
			{"new", "200 new lwango; fwd=uri-miss; stored", ""},
			{"same", "200 new lwango; fwd=stale; fwd-status=304; stored", `"1"`},
			{"fails", "200 new lwango; hit; ttl=-10", `"1"`},
			{"breaks", "200 new lwango; hit; ttl=-30", `"1"`},
			{"newer", "200 newer lwango; fwd=stale; stored", `"1"`},
			{"same", "200 newer ", `"1"`},
		} {
			how.Store(step.how)
			a, said := get(t, &s.cached, "/x")
			if !strings.HasPrefix(said, strings.Split(step.want, "ttl")[0]) || seen.Load() != step.seen {
				t.Errorf("step %d, %s: %s %.200s, want %s; asked with %q", i, step.how, a.Status, said,
					step.want, seen.Load())
			}
			s.Skip(20 * time.Second)
		}
	}, modes.Direct, modes.HTTP2)
}
