package cache_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// sessions answers those that have a cookie alike, and gives others one.
func sessions(_ int32, req *conn.Request, w *conn.Response) int {
	fields(w, "Cache-Control: max-age=100")
	if !req.Header().Has("Cookie") {
		fields(w, "Set-Cookie: a=b")
	}
	return w.Text(200, "")
}

// TestKeptAfterAll: an answer that is for all is kept though one before it was for one client, and
// more such ones come all the time.
func TestKeptAfterAll(t *testing.T) {
	o := &origin{answer: sessions}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	get(t, s, "/")
	for i := range 5 {
		s.Skip(time.Second)
		get(t, s, "/") // one more
		s.Skip(time.Second)
		if _, said := get(t, s, "/", "Cookie: a=b"); i == 0 &&
			said != "200  lwango; fwd=uri-miss; stored" ||
			i > 0 && !strings.HasPrefix(said, "200  lwango; hit; ttl=") {
			t.Errorf("round %d: %s", i, said)
		}
	}
}

// TestCookieLeavesOld: an answer that gives one client a cookie does not displace what is kept.
func TestCookieLeavesOld(t *testing.T) {
	o := &origin{answer: sessions}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	get(t, s, "/", "Cookie: a=b")
	s.Skip(200 * time.Second)
	get(t, s, "/")
	if n := s.stats().MemoryObjects; n != 1 {
		t.Errorf("%d answers are kept", n)
	}
}

// TestProbeHoldsUpNobody: nobody waits for a request that looks whether its answer is kept.
func TestProbeHoldsUpNobody(t *testing.T) {
	first := new(loop.Promise[bool])
	var gone atomic.Bool
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: private")
		if n == 2 {
			_, err := first.Await(req.Thread, wait.Patience)
			gone.Store(err != nil)
		}
		return w.Text(200, "")
	}}
	s := start(t, modes.Direct, cache.Settings{Lock: new(time.Hour)}, o.serve)
	get(t, s, "/")
	s.Skip(2 * time.Second)
	c := s.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n")
	wait.Until(t, "the request that looks", func() bool { return o.n.Load() == 2 })
	for range 3 {
		s.Skip(time.Second)
		get(t, s, "/")
	}
	first.Resolve(true)
	if a := c.Answer("GET"); a.StatusCode != 200 || gone.Load() {
		t.Errorf("%d", a.StatusCode)
	}
}
