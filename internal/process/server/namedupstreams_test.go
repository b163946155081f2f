package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/must"
)

// TestRoutesShareAnUpstream: routes of two sites use one connection and one circuit of an
// [[upstream]], which the status page has once. A reload leaves the connection.
func TestRoutesShareAnUpstream(t *testing.T) {
	var made, asked atomic.Int32
	var bad atomic.Bool
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); bad.Load() {
			w.WriteHeader(503)
		}
	}))
	up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	up.Start()
	t.Cleanup(up.Close)
	text := func(more string) string {
		return fmt.Sprintf(`threads = 1
[[upstream]]
name = "app"
address = %q
fail_status = [503]
circuit = { errors = 50, requests = 2, open = "1h" }
[[site]]
host = "a.example"
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "app"
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "app"
[[site.route]]
prefix = "/status"
module = "status"
%s`, up.Listener.Addr(), more)
	}
	s := serve(t, source(), text(""))
	ask := func(host string) int {
		t.Helper()
		req, err := http.NewRequest("GET", "http://"+s.at+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	row := func() metrics.Upstream {
		t.Helper()
		all := snapshot(t, "http://"+s.at).Upstreams
		if len(all) != 1 || all[0].Site != "upstream app" || all[0].Route != "" {
			t.Fatalf("the upstreams are %+v", all)
		}
		return all[0]
	}
	if a, b := ask("a.example"), ask("b.example"); a != 200 || b != 200 || made.Load() != 1 {
		t.Errorf("statuses %d and %d, on %d connections", a, b, made.Load())
	}
	s.reload(text("[[site.route]]\nprefix = '/more'\nmodule = 'response'\nstatus = 204\n"))
	if a := ask("a.example"); a != 200 || made.Load() != 1 {
		t.Errorf("status %d after a reload, on %d connections", a, made.Load())
	}
	if u := row(); !u.Up || u.Requests != 3 {
		t.Errorf("it is %+v", u)
	}
	bad.Store(true)
	ask("a.example")
	ask("a.example")
	before := asked.Load()
	if b := ask("b.example"); b != 503 || asked.Load() != before {
		t.Errorf("another route has status %d, and has asked: %v", b, asked.Load() != before)
	}
	if row().Up {
		t.Error("the status page says that it works")
	}
}

// TestNamedUpstreamByMap: the `hash` of an [[upstream]] has the values of maps.
func TestNamedUpstreamByMap(t *testing.T) {
	var asked [8]atomic.Int32
	addresses := make([]string, len(asked))
	for i := range asked {
		up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked[i].Add(1)
		}))
		t.Cleanup(up.Close)
		addresses[i] = fmt.Sprintf("%q", up.Listener.Addr())
	}
	s := serve(t, source(), fmt.Sprintf(`[[map]]
name = "shop"
from = "{path}"
values = { "/a*" = "one" }
default = "{path}"
[[upstream]]
name = "app"
address = [%s]
balance = "hash"
hash = "{shop}"
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "app"
`, strings.Join(addresses, ", ")))
	reached := func(letter string) (n int) {
		t.Helper()
		for i := range asked {
			asked[i].Store(0)
		}
		for i := range 40 {
			resp, err := http.Get(fmt.Sprintf("http://%s/%s%d", s.at, letter, i))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != 200 {
				t.Fatalf("status %d", resp.StatusCode)
			}
		}
		for i := range asked {
			if asked[i].Load() > 0 {
				n++
			}
		}
		return n
	}
	if n := reached("a"); n != 1 {
		t.Errorf("requests with the same value of the map reach %d addresses", n)
	}
	if n := reached("b"); n < 2 {
		t.Errorf("requests with different values of the map reach %d address", n)
	}
}

// TestUpstreamByMap: a map chooses the upstream of each request, and a cache in front keeps the
// answers of each.
func TestUpstreamByMap(t *testing.T) {
	var asked atomic.Int32
	address := func(name string) string {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Cache-Control", "max-age=60")
			fmt.Fprint(w, name)
		}))
		t.Cleanup(up.Close)
		return up.Listener.Addr().String()
	}
	src := source()
	src.Cache = cache.NewStore()
	s := serve(t, src, fmt.Sprintf(`[[map]]
name = "backend"
from = "{field.X-Shop}"
values = { a = "one" }
default = "two"
[[upstream]]
name = "one"
address = %q
[[upstream]]
name = "two"
address = %q
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "{backend}"
cache = true
`, address("one"), address("two")))
	for range 2 {
		for shop, want := range map[string]string{"a": "one", "b": "two", "127.0.0.1:1": "two"} {
			req := must.Get(http.NewRequest("GET", "http://"+s.at+"/", nil))(t)
			req.Header.Set("X-Shop", shop)
			resp := must.Get(http.DefaultClient.Do(req))(t)
			body := must.Get(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			if string(body) != want {
				t.Errorf("shop %s gets %q, want %q", shop, body, want)
			}
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the upstreams were asked %d times", n)
	}
}
