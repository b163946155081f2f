package loop_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// What a loop starts beside it runs before the loop polls for events twice more, even if the loop
// never blocks and there is one processor. Once in 61 times Go's scheduler takes the loop again.
func TestStartGoroutine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	run(t, func(t *testing.T, l *loop.Loop) {
		const times = 200
		late := 0
		l.Go(func(th *loop.Thread) {
			for range times {
				var done atomic.Bool
				begin := l.Stats().Waits
				l.Layer().StartGoroutine(func() { done.Store(true) })
				for limit := time.Now().Add(time.Minute); !done.Load() && time.Now().Before(limit); {
					th.Yield()
				}
				if l.Stats().Waits-begin > 2 {
					late++
				}
			}
		})
		mustRun(t, l)
		if late > times/4 {
			t.Errorf("%d of %d functions began late", late, times)
		}
	})
}
