package server_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/server"
)

// TestMemoryRests: a server that has a large heap, and makes a little garbage all the time, is not
// made to collect it again and again.
func TestMemoryRests(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collections but those of Memory
	type node struct{ next *node }
	var heap *node // takes some milliseconds
	for range 1 << 20 {
		heap = &node{heap}
	}
	collections := func() uint32 {
		var st runtime.MemStats
		runtime.ReadMemStats(&st)
		return st.NumGC
	}
	var m server.Memory
	now := time.Now()
	m.Look(1, now)
	m.Look(1, now)
	before := collections()
	for range 20 {
		sink = make([]byte, 16<<20)
		now = now.Add(time.Millisecond)
		m.Look(1, now)
	}
	if n := collections() - before; n > 0 {
		t.Errorf("%d collections in 20 ms", n)
	}
	m.Look(1, now.Add(time.Hour))
	if n := collections() - before; n == 0 {
		t.Error("no collection after an hour")
	}
	runtime.KeepAlive(heap)
}

var sink []byte
