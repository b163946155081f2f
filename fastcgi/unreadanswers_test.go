package fastcgi_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUnreadByMany: clients that do not read their answers, more of them than there are workers,
// hold up no other client. The settings are those of a route that says nothing about buffering.
func TestUnreadByMany(t *testing.T) {
	t.Parallel()
	const clients, length = 20, 4 << 20 // more than a socket takes for a slow reader
	f := startFPM(t, "unix", "pm.max_children = 8")
	p := route(t, registry(), "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	router := must.Get(handlers.NewRouter(
		[]handlers.Site{{Routes: []handlers.Route{{Prefix: "/", Handler: p.handler}}}}))(t)
	// On a busy machine clients do not read for longer than a server bears by default.
	p.Server = server.Start(t, modes.Direct, conn.Config{Handler: router.Serve,
		Limits: conn.Limits{WriteTimeout: 5 * wait.Patience, KeepAliveTimeout: 5 * wait.Patience}})
	page := func() time.Duration {
		best := time.Hour // of some medians, as the machine may be busy
		for range 3 {
			times := make([]time.Duration, 50)
			for i := range times {
				begin := time.Now()
				if g := p.get("/hello.php"); g.body != "Hello, world!" || g.err != nil {
					t.Fatal(g)
				}
				times[i] = time.Since(begin)
			}
			slices.Sort(times)
			best = min(best, times[len(times)/2])
		}
		return best
	}
	alone := page()
	readers := make([]*server.Client, clients)
	for i := range readers {
		readers[i] = p.DialBuffer(server.SlowReader)
		readers[i].Send(fmt.Sprintf("GET /big.php?n=%d HTTP/1.1\r\nHost: a\r\n\r\n", length))
	}
	for _, c := range readers {
		must.Get(c.R.Peek(1))(t) // the answer has begun
	}
	watch := status(t, f)
	wait.Until(t, "the workers are free", func() bool { return busy(t, watch) == "1" })
	beside := page()
	for try := 0; beside > 5*alone && try < 5; try++ { // the machine may have become busy
		beside = min(beside, page())
	}
	// And what was held for them is theirs, whole.
	var all sync.WaitGroup
	for _, c := range readers {
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		all.Go(func() {
			if g := read(c.R, "GET"); len(g.body) != length || g.err != nil {
				t.Errorf("%d, %d bytes, %v", g.status, len(g.body), g.err)
			}
		})
	}
	all.Wait()
	if beside > 5*alone { // perhaps the machine has become busy for longer than that
		alone = max(alone, page())
	}
	t.Logf("a small page takes %v alone, %v beside them", alone, beside)
	if beside > 5*alone {
		t.Errorf("a small page takes %v alone, %v beside clients that do not read", alone, beside)
	}
}
