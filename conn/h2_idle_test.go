package conn_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2IdleMemory: a session that has answered, and has no streams, holds no buffers.
func TestHTTP2IdleMemory(t *testing.T) {
	const many, bound = 100, 16 << 10
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{KeepAliveTimeout: time.Hour}, Handler: hello})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what was in a sync.Pool
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range many {
		r := dial2(t, s).get(1).flush()
		if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 1 200" {
			t.Fatal(got)
		}
	}
	wait.Until(t, "the sessions are small", func() bool { return heap() < before+many*bound })
}
