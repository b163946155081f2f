package cache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSites: sites share a store. None gets what another one has kept by the same text of a key,
// and PURGE at one purges nothing of another one's, by key or by tag.
func TestSites(t *testing.T) {
	store := open(t)
	sites := make(map[string]conn.Handler)
	for _, host := range []string{"a.example", "b.example"} {
		for _, key := range []string{"", "{uri}"} {
			name := fmt.Sprint(len(key), ".", host)
			m := must.Get(cache.New(store, cache.Settings{Key: key, PurgeFrom: []string{"127.0.0.1"}},
				handlers.Env{Hosts: []string{name}, Prefix: "/"}))(t)
			sites[name] = m(func(req *conn.Request, w *conn.Response) int {
				fields(w, "Cache-Control: max-age=100", "Cache-Tag: all")
				return w.Text(200, name)
			})
		}
	}
	s := &cached{serveAll(t, func(req *conn.Request, w *conn.Response) int {
		return sites[req.Host()](req, w)
	}), store}
	c := s.Dial()
	ask := func(method, host, target string, fields ...string) string {
		a := c.Do(method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", method, target, host,
			strings.Join(append(fields, "Accept: */*"), "\r\n")))
		said, _, _ := strings.Cut(a.Header.Get("Cache-Status"), "; ttl=") // which real time changes
		return fmt.Sprint(a.StatusCode, " ", a.Text, " ", said)
	}
	fill := func() {
		t.Helper()
		for host := range sites {
			ask("GET", host, "/x")
			if got := ask("GET", host, "/x"); got != "200 "+host+" lwango; hit" {
				t.Errorf("%s: %s", host, got)
			}
		}
	}
	for host := range sites {
		for _, purge := range [][]string{{"/x"}, {"/*"}, {"/", "Cache-Tag: all"}} {
			fill()
			if got := ask("PURGE", host, purge[0], purge[1:]...); got[:3] != "200" {
				t.Error(got)
			}
			for other := range sites {
				want := "200 " + other + " lwango; hit"
				if other == host {
					want = "200 " + other + " lwango; fwd=uri-miss; stored"
				}
				if got := ask("GET", other, "/x"); got != want {
					t.Errorf("%v of %s: %s", purge, host, got)
				}
			}
		}
	}
}

// TestUnsafeMethodReachesAll: what a POST drops is all that is kept for the URL, by whatever
// fields.
func TestUnsafeMethodReachesAll(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, cache.Settings{SortQuery: true}, tagged)
		kept := [][]string{{}, {"X-Forwarded-Host: a"}, {"X-Forwarded-Host: b"}}
		for _, f := range kept {
			get(t, s, "/a?x=1&y=2", f...)
			get(t, s, "/b", f...)
		}
		s.Request("POST /a?y=2&x=1", []string{"X-Forwarded-Host: c"}, "")
		for _, f := range kept {
			if _, said := get(t, s, "/a?x=1&y=2", f...); said != "200 /a lwango; fwd=uri-miss; stored" {
				t.Errorf("%v: %s", f, said)
			}
			if _, said := get(t, s, "/b", f...); said != "200 /b lwango; hit; ttl=100" {
				t.Errorf("%v: %s", f, said)
			}
		}
	}, modes.Direct)
}

// TestPurgeForms: a URL is the same in whatever form it is purged.
func TestPurgeForms(t *testing.T) {
	s := start(t, modes.Direct, cache.Settings{SortQuery: true, PurgeFrom: []string{"127.0.0.1"}},
		tagged)
	method := func(target string) func() {
		return func() {
			if a := s.Request("PURGE "+target, nil, ""); a.StatusCode != 200 {
				t.Errorf("%s: %d", target, a.StatusCode)
			}
		}
	}
	program := func(url string) func() {
		return func() { must.Do(t, s.store.Purge(cache.Purge{URLs: []string{url}})) }
	}
	for name, tt := range map[string]struct {
		target string
		purge  func()
	}{
		"sorted":            {"/a?y=2&x=1", program("http://test.example/a?y=2&x=1")},
		"sorted, by PURGE":  {"/a?y=2&x=1", method("/a?y=2&x=1")},
		"without a path":    {"/", program("http://Test.example")},
		"with a query only": {"/?x=/", program("//test.example?x=/")},
		"absolute-form":     {"/a", method("http://test.example/a")},
		"absolute, no path": {"/", method("HTTP://test.example")},
		"of absolute-form":  {"http://test.example/a", method("/a")},
	} {
		get(t, s, tt.target)
		get(t, s, "/other")
		tt.purge()
		if got := left(t, s, tt.target, "/other"); got != "/other" {
			t.Errorf("%s: left %q", name, got)
		}
	}
}

// TestPurgeWithoutStore: while the store is not open, PURGE does not reach the application, and is
// for those that may.
func TestPurgeWithoutStore(t *testing.T) {
	for from, want := range map[string]int{"127.0.0.1": 503, "192.0.2.0/24": 403} {
		s := start(t, modes.Direct, cache.Settings{PurgeFrom: []string{from}},
			func(_ *conn.Request, w *conn.Response) int { return w.Text(200, "application") })
		s.store.Close()
		if a := s.Request("PURGE /", nil, ""); a.StatusCode != want {
			t.Errorf("%s: %d %s", from, a.StatusCode, a.Text)
		}
	}
}

// TestPurgeThatTakesLong: a client does not wait for a purge that does not end, and learns of that.
func TestPurgeThatTakesLong(t *testing.T) {
	s := &cached{store: must.Get(
		cache.Open(cache.Options{Memory: 4 << 20, Folder: t.TempDir(), Disk: 4 << 20}))(t)}
	t.Cleanup(s.store.Close)
	m := must.Get(cache.New(s.store, cache.Settings{PurgeFrom: []string{"127.0.0.1"}},
		handlers.Env{}))(t)
	s.Server = serveAll(t, m(tagged))
	get(t, s, "/a")
	asked, goOn := make(chan bool), make(chan bool)
	s.store.Share(func([]byte, bool) {
		asked <- true
		<-goOn
	})
	defer close(goOn)
	done := make(chan int)
	go func() { done <- s.Request("PURGE /a", nil, "").StatusCode }()
	<-asked
	s.Server.Skip(3 * time.Second)
	if status := <-done; status != 500 {
		t.Errorf("%d", status)
	}
	if got := left(t, s, "/a"); got != "" {
		t.Errorf("left %q", got)
	}
}
