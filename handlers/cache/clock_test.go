package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestClockJumps: what is kept gets no younger if the machine's clock is put back, and counts as
// older if that is put forward. What was purged softly stays stale.
func TestClockJumps(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100, stale-while-revalidate=1000")
		return w.Text(200, fmt.Sprint(n))
	}}
	// A thread that has to wait between its looks at the two clocks takes that time for a jump.
	const half = time.Second / 2
	for _, tt := range []struct {
		name       string
		jump, skip time.Duration
		soft       bool
		want       string
	}{
		{"nothing", 0, 10 * time.Second, false, "hit; ttl=90"},
		{"slewing", time.Second / 2, 10 * time.Second, false, "hit; ttl=90"},
		{"back", -24 * time.Hour, 10 * time.Second, false, "hit; ttl=90"},
		{"back, and stale", -24 * time.Hour, 101 * time.Second, false, "hit; ttl=-1"},
		{"forward", 50*time.Second + half, 10 * time.Second, false, "hit; ttl=40"},
		{"far forward", 24 * time.Hour, 0, false, "fwd=stale; stored"},
		{"back, purged", -24 * time.Hour, 10 * time.Second, true, "hit; ttl=0"},
		{"forward, purged", 50 * time.Second, 10 * time.Second, true, "hit; ttl=0"},
	} {
		s := start(t, modes.Direct, cache.Settings{}, o.serve)
		get(t, s, "/")
		if tt.soft {
			must.Do(t, s.store.Purge(cache.Purge{All: true, Soft: true}))
		}
		s.store.Jump(tt.jump)
		s.Skip(tt.skip)
		if a, _ := get(t, s, "/"); a.Header.Get("Cache-Status") != "lwango; "+tt.want {
			t.Errorf("%s: %s, want %s", tt.name, a.Header.Get("Cache-Status"), tt.want)
		}
	}
}

// TestClockJumpsBeforeRestart: the time on disk is the machine's.
func TestClockJumpsBeforeRestart(t *testing.T) {
	folder := t.TempDir()
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		w.SetBody(modes.Noise(100 << 10))
		return 200
	}}
	now := time.Now()
	begin := func() *cached {
		c := &cached{
			store: must.Get(cache.Open(cache.Options{Memory: 4 << 20, Folder: folder, Disk: 64 << 20}))(t)}
		c.store.StandAt(now)
		c.Server = serveAll(t, must.Get(cache.New(c.store, cache.Settings{}, handlers.Env{}))(t)(o.serve))
		return c
	}
	s := begin()
	s.store.Jump(-time.Hour)
	s.Skip(30 * time.Second)
	get(t, s, "/")
	wait.Until(t, "the answer on disk", func() bool {
		return s.stats().DiskObjects == 1 && s.stats().Filling == 0
	})
	s.store.Close()
	s = begin()
	s.store.Jump(-time.Hour)
	s.Skip(40*time.Second + time.Second/2) // see TestClockJumps
	wait.Until(t, "what is on disk", func() bool { return s.stats().DiskObjects == 1 })
	if a, _ := get(t, s, "/"); a.Header.Get("Cache-Status") != "lwango; hit; ttl=90" {
		t.Error(a.Header.Get("Cache-Status"))
	}
	s.store.Close()
}

// TestClockJumpsOnDisk: what this process reads from disk again is as old as before, though the
// machine's clock was put back meanwhile.
func TestClockJumpsOnDisk(t *testing.T) {
	s := cache.NewStore()
	received := time.Unix(0, time.Now().Add(-time.Minute).UnixNano())
	got, validate := s.Reread(received, func() { s.Jump(-time.Hour) })
	if !got.Equal(received) || validate {
		t.Errorf("received %v later, validate %v", got.Sub(received), validate)
	}
}

// TestClockBackBeforeRestart: what was received at a time that is still to come is validated.
func TestClockBackBeforeRestart(t *testing.T) {
	folder := t.TempDir()
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100")
		w.SetBody(modes.Noise(100 << 10))
		return 200
	}}
	for _, want := range []string{"fwd=uri-miss; stored", "fwd=stale; stored"} {
		store := must.Get(cache.Open(cache.Options{Memory: 4 << 20, Folder: folder, Disk: 64 << 20}))(t)
		s := &cached{store: store}
		s.Server = serveAll(t, must.Get(cache.New(store, cache.Settings{}, handlers.Env{}))(t)(o.serve))
		if want == "fwd=stale; stored" {
			store.Jump(-24 * time.Hour)
			wait.Until(t, "what is on disk", func() bool { return s.stats().DiskObjects == 1 })
		}
		if a, _ := get(t, s, "/"); a.Header.Get("Cache-Status") != "lwango; "+want {
			t.Errorf("%s, want %s", a.Header.Get("Cache-Status"), want)
		}
		wait.Until(t, "the answer on disk", func() bool {
			return s.stats().DiskObjects == 1 && s.stats().Filling == 0
		})
		store.Close()
	}
}
