package fastcgi_test

import (
	"bufio"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUnreadByMany: clients that do not read their answers, more of them than there are workers,
// hold up no other client. The settings are those of a route that says nothing about buffering.
func TestUnreadByMany(t *testing.T) {
	t.Parallel()
	const clients, length = 20, 6 << 20
	f := startFPM(t, "unix", "pm.max_children = 8")
	p := serveFiles(t, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
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
	began := time.Now()
	readers := make([]*bufio.Reader, clients)
	for i := range readers {
		c := p.Dial()
		fmt.Fprintf(c, "GET /big.php?n=%d HTTP/1.1\r\nHost: a\r\n\r\n", length)
		readers[i] = bufio.NewReader(c)
	}
	for _, r := range readers {
		must.Get(r.Peek(1))(t) // the answer has begun
	}
	watch := status(t, f)
	wait.Until(t, "the workers are free", func() bool { return busy(t, watch) == "1" })
	beside := page()
	// The machine may have become busy. After 30 s the server gives up clients that do not read.
	for try := 0; beside > 5*alone && try < 5 && time.Since(began) < 15*time.Second; try++ {
		beside = min(beside, page())
	}
	// And what was held for them is theirs, whole. If one read behind the other, the last would not have
	// read for as long as it takes to read all others, and be given up.
	var all sync.WaitGroup
	for _, r := range readers {
		all.Go(func() {
			if g := read(r, "GET"); len(g.body) != length || g.err != nil {
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
