package cache_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
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
	if race.Enabled {
		t.Skip("the race detector has memory of its own")
	}
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
