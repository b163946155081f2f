package cache_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"golang.org/x/sys/unix"
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
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = c.Write([]byte(ask(i))) })
		for range n {
			resp := must.Get(http.ReadResponse(c.R, nil))(t)
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		asking.Wait() // the requests are memory, too
	}
	round(0)
	before, counted := heap(), s.stats().MemoryBytes
	round(n)
	used, counted := (heap()-before)/n, (s.stats().MemoryBytes-counted)/n
	t.Logf("%d bytes each, %d counted", used, counted)
	if used > 1638 {
		t.Errorf("%d bytes each", used)
	}
	const others = 32 << 10 / n // what other goroutines have allocated meanwhile
	if used > counted+others {
		t.Errorf("%d bytes each, %d are counted", used, counted)
	}
}

// TestSlowReaders: long answers that many clients do not read take no more memory than the store
// has, whether they are kept, were evicted, or are not kept for that.
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
		c := s.DialBy(small(fmt.Sprintf("127.0.1.%d", i+1)))
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

// small dials from an address, with a small buffer to receive.
func small(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)},
		Control: func(_, _ string, rc syscall.RawConn) (err error) {
			_ = rc.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
			})
			return err
		}}
}

// TestOneReadsNothing: a client that reads nothing of five long answers does not end the keeping of
// long ones for others, whether these answers are kept already or come for it, and whatever it says
// to caches. What is beyond its share is sent to it past the cache.
func TestOneReadsNothing(t *testing.T) {
	const memory, size = 64 << 20, 7 << 20
	body := make([]byte, size)
	for _, first := range []bool{true, false} {
		s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			w.Header().Set("Cache-Control", "max-age=1000")
			w.Header().Set("ETag", `"1"`)
			if req.Header().Has("If-None-Match") {
				return http.StatusNotModified
			}
			w.SetBody(body)
			return 200
		})
		must.Do(t, s.store.Configure(cache.Options{Memory: memory}))
		cacheStatus := func(resp *http.Response) string { // without what changes as time goes by
			said, _, _ := strings.Cut(resp.Header.Get("Cache-Status"), "; ttl=")
			return said
		}
		said := make(map[string]int)
		for i := range 5 {
			target := fmt.Sprint("/", i)
			if !first {
				get(t, s, target)
			}
			c := s.DialBy(small("127.0.0.2"))
			c.Send("GET " + target + " HTTP/1.1\r\nHost: test.example\r\n\r\n")
			resp := must.Get(http.ReadResponse(c.R, nil))(t) // and no more
			said[cacheStatus(resp)]++
		}
		if first && said["lwango; fwd=uri-miss; stored"] != 5 ||
			!first && (said["lwango; hit"] != 2 || said["lwango; fwd=bypass"] != 3) {
			t.Errorf("first %v: %v", first, said)
		}
		for ask, want := range map[string]string{
			"HEAD /3 HTTP/1.1": "200 lwango; hit", // it takes no memory
			"GET /4 HTTP/1.1\r\nCache-Control: only-if-cached": "504 ",
			"GET /4 HTTP/1.1\r\nCache-Control: no-cache":       "200 lwango; fwd=bypass",
		} {
			if first {
				break
			}
			c := s.DialBy(small("127.0.0.2"))
			c.Send(ask + "\r\nHost: test.example\r\n\r\n")
			resp := must.Get(http.ReadResponse(c.R, &http.Request{Method: strings.Fields(ask)[0]}))(t)
			if got := fmt.Sprint(resp.StatusCode, " ", cacheStatus(resp)); got != want {
				t.Errorf("%q: %s, want %s", ask, got, want)
			}
		}
		late := s.DialBy(small("127.0.0.2"))
		late.Send("GET /other0 HTTP/1.1\r\nHost: test.example\r\n\r\n")
		// which is not kept, and that is so for this client alone
		must.Get(http.ReadResponse(late.R, nil))(t)
		for i := range 3 {
			target := fmt.Sprint("/other", i)
			get(t, s, target)
			if _, said := get(t, s, target); !strings.Contains(said, "hit") {
				t.Errorf("first %v: %s: nothing long is kept any more: %.80q", first, target,
					said[len(said)-60:])
			}
		}
	}
}
