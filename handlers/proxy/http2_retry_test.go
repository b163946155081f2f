package proxy_test

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestHTTP2Cut: an upstream that closes each connection gets each request twice at most, though requests
// share the new connections, too.
func TestHTTP2Cut(t *testing.T) {
	const many = 10
	var connections, all atomic.Int32
	o := startAt(t, "tcp", "127.0.0.1:0", func(p *peer) {
		hello2(p)
		// The first request of a connection is not sent again, unless the connection was a new one.
		for n := many + 1 - connections.Add(1); n > 0; n-- {
			if await2(p, http2.Headers) == 0 {
				return
			}
			all.Add(1)
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			if g := f.get(fmt.Sprint("/", i)); g.status != 502 {
				t.Error(g)
			}
		})
	}
	clients.Wait()
	if c, n := connections.Load(), all.Load(); c > 2 || n > 2*many {
		t.Errorf("%d connections, %d requests", c, n)
	}
}

// TestHTTP2RefusedLate: an answer that has begun is not taken for none.
func TestHTTP2RefusedLate(t *testing.T) {
	var asked atomic.Int32
	o := startAt(t, "unix", t.TempDir()+"/s", func(p *peer) {
		hello2(p)
		for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
			asked.Add(1)
			_, _ = p.Write(append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, id, 1), 0x88))
			_, _ = io.WriteString(p, string(http2.AppendHeader(nil, http2.Data, 0, id, 5))+"hello")
			_, _ = p.Write(http2.AppendReset(nil, id, http2.RefusedStream))
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	if g := f.get("/"); asked.Load() != 1 || g.err == nil && g.status == 200 {
		t.Error(asked.Load(), g)
	}
}
