package cache_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

const refreshed = "max-age=10, stale-while-revalidate=60"

// TestRefreshByAny: what is asked for beside is kept, whatever the request says that got what is
// stale.
func TestRefreshByAny(t *testing.T) {
	for _, line := range []string{"HEAD /", "GET /; Range: bytes=0-0",
		"GET /; Cache-Control: no-store"} {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: "+refreshed)
			return w.Text(200, fmt.Sprint(n))
		}}
		s := start(t, modes.Direct, cache.Settings{}, o.serve)
		get(t, s, "/")
		s.Skip(20 * time.Second)
		parts := strings.Split(line, "; ")
		s.Request(parts[0], parts[1:], "")
		wait.Until(t, "the end of the refresh", func() bool {
			return o.n.Load() == 2 && s.stats().Filling == 0
		})
		if _, said := get(t, s, "/"); said != "200 2 lwango; hit; ttl=10" {
			t.Errorf("%s: %s", line, said)
		}
	}
}

// TestRefreshIsNobodys: a client that has joined a refresh and leaves does not end it.
func TestRefreshIsNobodys(t *testing.T) {
	first, second := newGate(refreshed), newGate(refreshed)
	first.head.Resolve("")
	first.rest.Resolve("")
	s := start(t, modes.Several, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		if first.asked.Load() == 0 {
			return first.serve(req, w)
		}
		return second.serve(req, w)
	})
	get(t, s, "/x")
	s.Skip(20 * time.Second)
	get(t, s, "/x")
	wait.Until(t, "the refresh", func() bool { return second.asked.Load() == 1 })
	joins := s.Dial()
	joins.Send("GET /x HTTP/1.1\r\nHost: test.example\r\nCache-Control: no-cache\r\n\r\n")
	s.Settle()
	second.head.Resolve("")
	if _, err := joins.R.ReadByte(); err != nil {
		t.Error(err)
	}
	joins.Reset()
	s.Settle()
	second.rest.Resolve("")
	wait.Until(t, "the end of the refresh", func() bool { return s.stats().Filling == 0 })
	if a, said := get(t, s, "/x"); a.Text != whole ||
		a.Header.Get("Cache-Status") != "lwango; hit; ttl=10" {
		t.Errorf("%.100s", said)
	}
}

// TestRefreshesAreBounded: beyond the limit, what is stale is sent without a refresh.
func TestRefreshesAreBounded(t *testing.T) {
	const urls = cache.MaxRefreshes + 10
	goOn := new(loop.Promise[struct{}])
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		if n > urls {
			if _, err := goOn.Await(req.Thread, wait.Patience); err != nil {
				return 500
			}
		}
		fields(w, "Cache-Control: "+refreshed)
		return w.Text(200, "body")
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	c := s.Dial()
	all := func() {
		for i := range urls {
			c.Do("GET", fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: test.example\r\n\r\n", i))
		}
	}
	all()
	s.Skip(20 * time.Second)
	all()
	s.Settle()
	if n := o.n.Load(); n != urls+cache.MaxRefreshes {
		t.Errorf("%d requests to the handler, want %d", n, urls+cache.MaxRefreshes)
	}
	goOn.Resolve(struct{}{})
	wait.Until(t, "the end of the refreshes", func() bool { return s.stats().Filling == 0 })
	all()
	wait.Until(t, "the others", func() bool { return o.n.Load() == 2*urls })
}

// TestRefreshesOfSites: a site with many refreshes leaves some to others.
func TestRefreshesOfSites(t *testing.T) {
	goOn := new(loop.Promise[struct{}])
	store := open(t)
	sites, asked := make(map[string]conn.Handler), make(map[string]*atomic.Int32)
	for _, host := range []string{"many.example", "few.example"} {
		n := new(atomic.Int32)
		asked[host] = n
		layer := must.Get(cache.New(store, cache.Settings{}, handlers.Env{Hosts: []string{host}}))(t)
		sites[host] = layer(func(req *conn.Request, w *conn.Response) int {
			n.Add(1)
			if req.Layer().IsBackground() && req.Header().Get("X-First") == "" {
				if _, err := goOn.Await(req.Thread, wait.Patience); err != nil {
					return 500
				}
			}
			fields(w, "Cache-Control: "+refreshed)
			return w.Text(200, "body")
		})
	}
	s := &cached{serveAll(t, func(req *conn.Request, w *conn.Response) int {
		return sites[req.Host()](req, w)
	}), store}
	c := s.Dial()
	ask := func(host string, urls int, field string) {
		for i := range urls {
			c.Do("GET", fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: %s\r\n%s\r\n", i, host, field))
		}
	}
	const urls = 300
	ask("many.example", urls, "X-First: 1\r\n")
	ask("few.example", 10, "X-First: 1\r\n")
	s.Skip(20 * time.Second)
	ask("many.example", urls, "")
	ask("few.example", 10, "")
	s.Settle()
	if n := asked["few.example"].Load(); n != 20 {
		t.Errorf("%d requests to the handler of the site with few, want 20", n)
	}
	if n := asked["many.example"].Load(); n != urls+cache.MaxRefreshes {
		t.Errorf("%d requests to the handler of the other one, want %d", n, urls+cache.MaxRefreshes)
	}
	goOn.Resolve(struct{}{})
	wait.Until(t, "the end of the refreshes", func() bool { return s.stats().Filling == 0 })
}

// TestSeeks: parts of what is too long to be kept are asked for as parts.
func TestSeeks(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 300<<10)
	for _, length := range []int64{-1, int64(len(long))} {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=100")
			if req.Header().Get("Range") == "" {
				w.SetBodyReader(bytes.NewReader(long), length)
				return 200
			}
			fields(w, fmt.Sprintf("Content-Range: bytes 700000-700002/%d", len(long)))
			w.Write([]byte("012"))
			return 206
		}}
		store := must.Get(cache.Open(cache.Options{Memory: 16 << 20, MaxObject: 100 << 10}))(t)
		t.Cleanup(store.Close)
		s := &cached{store: store}
		s.Server = serveAll(t, must.Get(cache.New(store, cache.Settings{}, handlers.Env{}))(t)(o.serve))
		if length < 0 {
			get(t, s, "/") // only its end shows how long it is
		}
		before := o.n.Load()
		for i := range int32(3) {
			s.Skip(2 * time.Second) // a look at whether it may be kept after all would be due
			a, said := get(t, s, "/", "Range: bytes=700000-700002")
			if a.StatusCode != 206 || a.Text != "012" {
				t.Errorf("%s", said)
			}
			want := "GET   bytes=700000-700002"
			if length > 0 && i == 0 {
				want = "GET   " // which shows it
			}
			if seen := *o.seen.Load(); seen != want || o.n.Load() != before+i+1 {
				t.Errorf("length %d, seek %d: the handler has seen %q, %d requests", length, i, seen,
					o.n.Load())
			}
		}
	}
}

// TestErrorsForAll: where a revalidation brings an error that is for nobody else, those that have
// waited for it ask at once, and not one behind the other.
func TestErrorsForAll(t *testing.T) {
	first, others := new(loop.Promise[struct{}]), new(loop.Promise[struct{}])
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=10")
		switch {
		case n == 1:
			return w.Text(200, "body")
		case n == 2:
			if _, err := first.Await(req.Thread, wait.Patience); err != nil {
				return 502
			}
			w.Header().Del("Cache-Control")
			return 503
		}
		if _, err := others.Await(req.Thread, wait.Patience); err != nil {
			return 502
		}
		return w.Text(200, "new")
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	get(t, s, "/x")
	s.Skip(20 * time.Second)
	clients := make([]*server.Client, 4)
	for i := range clients {
		clients[i] = s.Dial()
		clients[i].Send(ask)
		wait.Until(t, "a request", func() bool { return o.n.Load() == 2 })
		s.Settle()
	}
	first.Resolve(struct{}{})
	s.Settle()
	if n := o.n.Load(); n != 5 {
		t.Errorf("%d requests to the handler, want 5", n)
	}
	others.Resolve(struct{}{})
	for _, c := range clients {
		c.Answer("GET")
	}
}

// TestAlwaysWhileKept: what is not kept is not fetched for nobody, whatever fill says.
func TestAlwaysWhileKept(t *testing.T) {
	g := newGate("private")
	s := start(t, modes.Several, cache.Settings{Fill: "always"}, g.serve)
	c := s.Dial()
	c.Send(ask)
	g.head.Resolve("")
	if _, err := c.R.ReadByte(); err != nil {
		t.Error(err)
	}
	c.Reset()
	wait.Until(t, "the end of the filling", func() bool { return s.stats().Filling == 0 })
}

// TestRefreshOfWhatIsNotSent: a client that has its share of long answers is sent the next one past
// the cache. Where what is kept of that is stale, the application is asked for it once.
func TestRefreshOfWhatIsNotSent(t *testing.T) {
	const memory, size = 64 << 20, 7 << 20
	var asked [3]atomic.Int32
	body := make([]byte, size)
	s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		asked[req.Path()[1]-'0'].Add(1)
		fields(w, "Cache-Control: max-age=10, stale-while-revalidate=1000")
		w.SetBody(body)
		return 200
	})
	must.Do(t, s.store.Configure(cache.Options{Memory: memory}))
	slow := func(target string) *http.Response { // reads the head alone
		c := s.DialBy(small("127.0.0.2"))
		c.Send("GET " + target + " HTTP/1.1\r\nHost: test.example\r\n\r\n")
		return must.Get(http.ReadResponse(c.R, nil))(t)
	}
	for i := range asked {
		get(t, s, fmt.Sprint("/", i))
	}
	for i := range 2 {
		slow(fmt.Sprint("/", i))
	}
	s.Skip(20 * time.Second)
	said := slow("/2").Header.Get("Cache-Status")
	s.Settle()
	wait.Until(t, "the end of a refresh", func() bool { return s.stats().Filling == 0 })
	if n := asked[2].Load(); n != 2 || said != "lwango; fwd=bypass" {
		t.Errorf("the application was asked %d times, %s", n, said)
	}
}
