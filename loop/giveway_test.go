package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// TestGiveWay: a thread that is ready passes a crowd that has given way, but for a share of a turn.
// None of the crowd is left out, although there is always another thread that is ready.
func TestGiveWay(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const crowd, rounds, atMost = 100, 3, 24
		began, left, passed, most := 0, crowd, 0, 0
		for range crowd {
			l.Go(func(th *loop.Thread) {
				for round := range rounds {
					for at := time.Now(); time.Since(at) < 200*time.Microsecond; {
					}
					if round == 0 {
						began++
					} else if began == crowd {
						passed++
					}
					th.Layer().GiveWay()
				}
				left--
			})
		}
		l.Go(func(th *loop.Thread) {
			for left > 0 {
				most, passed = max(most, passed), 0
				th.Yield()
			}
		})
		mustRun(t, l)
		if most == 0 || most > atMost {
			t.Errorf("a ready thread has waited for %d of the crowd, want 1 to %d", most, atMost)
		}
	})
}
