package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestForgotten: what an answer has replaced is not kept with it, nor is what has fetched it.
func TestForgotten(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	body := strings.Repeat("0123456789", 5000)
	s := start(t, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("Cache-Control", "max-age=1")
		w.Header().Set("ETag", `"x"`)
		return w.Text(200, body)
	})
	var first int64
	for i := range 220 {
		if i == 20 {
			first = heap()
		}
		if _, said := get(t, s, "/a"); !strings.Contains(said, "stored") {
			t.Fatal(said)
		}
		s.Skip(3 * time.Second)
	}
	if grown := heap() - first; grown > 5<<20 {
		t.Errorf("%d bytes for 200 answers that were replaced", grown)
	}
}

// TestKeptSize: an answer of 1 KiB takes 1.6 KiB at most, with its header and its key, and what is
// counted is what it takes.
func TestKeptSize(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	body := strings.Repeat("b", 1024)
	s := start(t, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("Cache-Control", "public, max-age=1000")
		w.Header().Set("ETag", `"0123456789abcdef"`)
		w.Header().Set("Last-Modified", "Fri, 27 Nov 2026 12:00:00 GMT")
		return w.Text(200, body)
	})
	const n = 2000
	ask := func(i int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "GET /some/path/%06d HTTP/1.1\r\nHost: www.example.org\r\n\r\n", i)
			i++
		}
		return b.String()
	}
	c := s.Dial()
	round := func(i int) {
		go func() { _, _ = c.Write([]byte(ask(i))) }()
		for range n {
			resp := must.Get(http.ReadResponse(c.R, nil))(t)
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
	round(0)
	before, counted := heap(), s.stats().MemoryBytes
	round(n)
	used, counted := (heap()-before)/n, (s.stats().MemoryBytes-counted)/n
	t.Logf("%d bytes each, %d counted", used, counted)
	if used > 1638 {
		t.Errorf("%d bytes each", used)
	}
	if used > counted {
		t.Errorf("%d bytes each, %d are counted", used, counted)
	}
}

// TestSlowReaders: long answers that many clients do not read take no more memory than the store has,
// whether they are kept, were evicted, or are not kept for that.
func TestSlowReaders(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const limit, clients = 48 << 20, 30
	s := start(t, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("Cache-Control", "max-age=1000")
		w.SetBody(make([]byte, limit/8-64<<10)) // more than a socket's buffers take
		return 200
	})
	must.Do(t, s.store.Configure(cache.Options{Memory: limit}))
	before := heap()
	hits := 0
	for i := range clients {
		target := fmt.Sprint("/", i)
		get(t, s, target)
		if _, said := get(t, s, target, "Range: bytes=0-0"); !strings.Contains(said, "hit") {
			continue // it is not kept: it would be read from the application
		}
		hits++
		c := s.DialSmall()
		c.Send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		must.Get(c.R.Peek(1))(t) // and no more
	}
	if grown := heap() - before; grown > limit+4<<20 {
		t.Errorf("%d MiB for %d clients that do not read", grown>>20, hits)
	}
	if n := s.stats().MemoryBytes; hits < 3 || n > limit {
		t.Errorf("%d hits, %d bytes", hits, n)
	}
}
