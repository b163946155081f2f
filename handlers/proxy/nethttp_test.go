package proxy_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestThroughTwo: many clients at once ask net/http through two proxies, with bodies of all sizes
// and both framings, and each gets its own bytes back.
func TestThroughTwo(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) { testThroughTwo(t, modes.Several, "", "1.1") })
	t.Run("HTTP/2", func(t *testing.T) { testThroughTwo(t, modes.HTTP2, "h2c://", "2.0") })
}

// testThroughTwo has the inner proxy in a mode, asked by that scheme and version.
func testThroughTwo(t *testing.T, m modes.Mode, scheme, version string) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(400)
			return
		}
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		w.Header().Set("X-Via", strings.Join(r.Header.Values("Via"), ";"))
		w.Write(body)
	}))
	defer origin.Close()
	inner := serve(t, m, "/", []string{origin.Listener.Addr().String()}, nil)
	outer := serve(t, modes.Several, "/", []string{scheme + inner.Addr},
		func(s *proxy.Settings) { s.RequestBuffering = false })
	const clients, requests = 8, 50
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			c := http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for range requests {
				size := 1 << random.IntN(19)
				want := strings.Repeat(fmt.Sprintf("%08x", random.Uint32()), size/8+1)
				var body io.Reader = strings.NewReader(want)
				path := "/length"
				if random.IntN(2) == 0 {
					body, path = struct{ io.Reader }{body}, "/chunks"
				}
				resp, err := c.Post("http://"+outer.Addr+path, "text/plain", body)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || string(got) != want ||
					resp.Header.Get("X-Via") != "1.1 lwango, "+version+" lwango" {
					t.Errorf("%s: %d bytes, want %d; %s %q %v", path, len(got), len(want), resp.Status,
						resp.Header.Get("X-Via"), err)
				}
			}
		})
	}
	all.Wait()
}

// TestWebSocket: gorilla's server and client through the proxy.
func TestWebSocket(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			typ, p, err := c.ReadMessage()
			if err != nil {
				return
			}
			if c.WriteMessage(typ, p) != nil {
				return
			}
		}
	}))
	defer origin.Close()
	f := serve(t, modes.Direct, "/", []string{origin.Listener.Addr().String()}, nil)
	c, _, err := websocket.DefaultDialer.Dial("ws://"+f.Addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 200 {
		want := strings.Repeat("x", i*i)
		must.Do(t, c.WriteMessage(websocket.TextMessage, []byte(want)))
		if _, got, err := c.ReadMessage(); err != nil || string(got) != want {
			t.Fatalf("%d: %d bytes, %v", i, len(got), err)
		}
	}
}

// TestReplaced: what a program says in place of the client reaches the upstream, also if the
// client's Connection field names it, which says what the client's own fields are for.
func TestReplaced(t *testing.T) {
	seen := make(chan string, 1)
	o := start(t, func(p *originConn) { seen <- p.head(); p.say("%s", hello) })
	h := must.Get(module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
		func(s *proxy.Settings) { s.Address, s.MaxIdle = []string{o.addr}, 0 }))(t)
	named := func(req *conn.Request, resp *conn.Response) int {
		req.Layer().ReplaceHeader("X-User", "ann")
		return h(req, resp)
	}
	f := &front{Server: module.Start(t, modes.Direct, "/", named)}
	f.ask("GET /", "X-User: forged\r\nX-Other: 1\r\nConnection: X-User, X-Other\r\n", "")
	if head := <-seen; !strings.Contains(head, "X-User: ann\r\n") ||
		strings.Contains(head, "forged") || strings.Contains(head, "X-Other") {
		t.Error(head)
	}
}
