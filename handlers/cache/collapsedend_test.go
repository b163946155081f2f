package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestLeadsTooLong: an answer that turns out to be too long to keep goes whole to those that wait
// for it. It comes at the pace of its readers: who holds up the one that leads for a second is cut
// off, and a busy machine would keep a client from reading for so long.
func TestLeadsTooLong(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const size, clients = 12 << 20, 2 // more than an eighth of the store
		release := make(chan struct{})
		var read [clients]atomic.Int64
		s := front(t, m, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			cacheable(w)
			piece := strings.Repeat("x", 64<<10)
			for sent := 0; sent < size; {
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
				sent += len(piece)
				for min(read[0].Load(), read[1].Load()) < int64(sent) && r.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}
		}, nil)
		var all [clients]*server.Client
		for i := range all {
			all[i] = s.Dial()
			all[i].Send(ask)
			wait.Until(t, "the first request", func() bool { return s.asked.Load() == 1 })
		}
		s.Settle()
		close(release)
		var ends sync.WaitGroup
		for i, c := range all {
			ends.Go(func() {
				var err error
				resp, err := http.ReadResponse(c.R, nil)
				for buf := make([]byte, 64<<10); err == nil; {
					var n int
					n, err = resp.Body.Read(buf)
					read[i].Add(int64(n))
				}
				if n := read[i].Load(); err != io.EOF || n != size {
					t.Errorf("client %d: %d bytes of %d, %v", i, n, size, err)
					read[i].Store(size) // the others go on
				}
			})
		}
		ends.Wait()
		wait.Until(t, "the end", func() bool { return s.stats().Filling == 0 })
	}, modes.Direct, modes.Several)
}

// TestLeadsDoubted: an answer that ends with its connection gets a Content-Length for nobody.
func TestLeadsDoubted(t *testing.T) {
	release := make(chan struct{})
	s := front(t, modes.Direct, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		<-release
		breakOff(t, w, "HTTP/1.0 200 OK\r\nCache-Control: max-age=100\r\n\r\nhalf")
	}, nil)
	clients := []*server.Client{s.Dial(), s.Dial()}
	clients[0].Send(ask)
	wait.Until(t, "the first request", func() bool { return s.asked.Load() == 1 })
	clients[1].Send(ask)
	s.Settle()
	close(release)
	for i, c := range clients {
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		text, err := io.ReadAll(resp.Body)
		if string(text) != "half" || err != nil || resp.ContentLength >= 0 {
			t.Errorf("client %d: %q, %v, length %d, asked %d", i, text, err, resp.ContentLength,
				s.asked.Load())
		}
	}
}

// TestCrowdedIsNotTooLong: an answer that is not kept since too many others are being sent is known
// as one that is too long for a moment only.
func TestCrowdedIsNotTooLong(t *testing.T) {
	const limit, size = 48 << 20, 48<<20/8 - 64<<10 // more than a socket's buffers take
	var ranged atomic.Value
	s := front(t, modes.Direct, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		ranged.Store(r.Header.Get("Range"))
		cacheable(w)
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}, nil)
	must.Do(t, s.store.Configure(cache.Options{Memory: limit}))
	var slow []*server.Client
	for i := range 5 {
		target := fmt.Sprint("/", i)
		get(t, &s.cached, target)
		c := s.DialBy(small(fmt.Sprintf("127.0.1.%d", i+1))) // one client would have its share
		c.Send("GET " + target + " HTTP/1.1\r\nHost: test.example\r\n\r\n")
		must.Get(c.R.Peek(1))(t)
		slow = append(slow, c)
	}
	if _, said := get(t, &s.cached, "/x"); strings.Contains(said, "stored") {
		t.Fatalf("%.100s", said[len(said)-100:])
	}
	for _, c := range slow {
		c.Reset()
	}
	for i := 0; ; i++ { // until there is room
		if _, said := get(t, &s.cached, fmt.Sprint("/other", i)); strings.Contains(said, "stored") {
			break
		}
	}
	s.Skip(2 * time.Second)
	a, _ := get(t, &s.cached, "/x", "Range: bytes=0-9")
	if got := ranged.Load(); a.StatusCode != 206 || got != "" {
		t.Errorf("%d, asked for with Range: %q", a.StatusCode, got)
	}
}
