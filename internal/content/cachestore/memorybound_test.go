package cachestore_test

import (
	"encoding/binary"
	"flag"
	"runtime"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/race"
)

var distinct = flag.Uint64("keys", 20_000,
	"how many keys TestDistinctKeys has; with LWANGO_CI=1, 50 times as many")

// TestDistinctKeys: keys that never come again take no memory beyond the bound, however many they
// are.
func TestDistinctKeys(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	keys := *distinct
	if ci.Enabled() {
		keys *= 50
	}
	const limit = 2 << 20
	s := store(t, limit)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	body := []byte("a body of some bytes, which is kept until others come")
	var before int64
	for i := range keys {
		if i == keys/2 {
			before = heap()
		}
		key := binary.BigEndian.AppendUint64([]byte("https://example.org/?"), i)
		r, f := s.Begin(s.Key(key), s.Lookup(nil, s.Key(key)), anyone)
		f.Start(cachestore.Head{Tags: "t"}, int64(len(body)))
		if f.Write(nil, body, -1) != nil {
			t.Fatal("no room")
		}
		_, _ = f.Commit()
		r.Close()
	}
	if grown := heap() - before; grown > limit/8 {
		t.Errorf("%d bytes more for %d keys", grown, keys/2)
	}
	s.Check()
	if n := s.Stats(); n.MemoryBytes > limit || n.Evicted < keys/4 {
		t.Errorf("%+v", n)
	}
}
