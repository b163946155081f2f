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

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestThroughTwo: many clients at once ask net/http through two proxies, with bodies of all sizes
// and both framings, and each gets its own bytes back.
func TestThroughTwo(t *testing.T) {
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
	inner := serve(t, modes.Several, "/", []string{origin.Listener.Addr().String()}, nil)
	outer := serve(t, modes.Several, "/", []string{inner.Addr},
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
					resp.Header.Get("X-Via") != "1.1 lwango, 1.1 lwango" {
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
		if err := c.WriteMessage(websocket.TextMessage, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.ReadMessage(); err != nil || string(got) != want {
			t.Fatalf("%d: %d bytes, %v", i, len(got), err)
		}
	}
}
