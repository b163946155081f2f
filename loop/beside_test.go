package loop_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// compute lets n goroutines compute until the test ends.
func compute(t *testing.T, n int) {
	var stop atomic.Bool
	t.Cleanup(func() { stop.Store(true) })
	for range n {
		go func() {
			for !stop.Load() {
			}
		}()
	}
}

// Beside more goroutines that compute than there are processors, Go's scheduler puts whoever calls
// it behind all of them, for 10 ms each. A loop does not wait for that each time it starts a
// goroutine, nor each few milliseconds.
func TestContended(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	run(t, func(t *testing.T, l *loop.Loop) {
		compute(t, 6)
		const times = 200
		var took time.Duration // of both processors, whatever else the machine does meanwhile
		l.Go(func(th *loop.Thread) {
			begin := cpuTime()
			for range times {
				if v, err := loop.Await(th, -1, func(context.Context) (int, error) {
					return 1, nil
				}); v != 1 || err != nil {
					t.Error(v, err)
					return
				}
			}
			took = cpuTime() - begin

			// A function that waits does not hold the loop.
			goOn := make(chan struct{})
			waits := loop.Call(th, func() (int, error) { <-goOn; return 2, nil })
			th.Yield() // a turn
			th.Yield()
			close(goOn)
			if v, err := loop.Collect(th, -1, waits); v[0] != 2 || err[0] != nil {
				t.Error(v, err)
			}
		})
		mustRun(t, l)
		if most := 2 * times * 10 * time.Millisecond; took > most {
			t.Errorf("%d functions have taken %v, as if each had waited for a processor",
				times, took)
		}
	})
}
