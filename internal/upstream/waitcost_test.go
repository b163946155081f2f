package upstream_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestGivingUpInBulk: what it costs to wait for a slot, and to give up, does not depend on how
// many others wait, be the only upstream full, or one full and the other one down. Processor time
// is compared, to which other processes add little, and the least of several tries counts.
func TestGivingUpInBulk(t *testing.T) {
	for _, c := range []struct {
		name string
		few  int
		down bool
	}{
		{"one upstream", 500, false},
		{"one of two is down", 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, goOn := stepwise(t)
			addresses := []string{s.address}
			if c.down {
				addresses = []string{nobody(t, "unix"), s.address}
			}
			r := newRoute(t, new(upstream.Pool), addresses, func(s *upstream.Settings) {
				s.MaxConns, s.MaxQueue, s.QueueTimeout = 1, 1<<20, 50*time.Millisecond
			})
			done := make(chan got)
			r.ask("x", false, done)
			s.requests(t, 1)

			l := r.loops.All[0]
			took := func(n int) time.Duration {
				var waiting sync.WaitGroup
				waiting.Add(n)
				begin := leak.ProcessorTime()
				must.Do(t, l.Post(func() {
					for range n {
						l.Go(func(th *loop.Thread) {
							defer waiting.Done()
							if _, err := r.request(th, "y", false); !upstream.Busy(err) {
								t.Error(err)
							}
						})
					}
				}))
				waiting.Wait()
				return leak.ProcessorTime() - begin
			}
			const times = 20
			few := c.few
			for try := 1; ; try++ {
				a, b := took(few), took(times*few)
				for range 2 {
					a, b = min(a, took(few)), min(b, took(times*few))
				}
				if b < 3*times*a {
					break
				}
				if try == 5 {
					t.Errorf("%d: %v, %d: %v", few, a, times*few, b)
					break
				}
			}
			goOn <- true
			if g := <-done; g.err != nil {
				t.Error(g.err)
			}
		})
	}
}
