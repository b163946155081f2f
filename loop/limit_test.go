package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// TestTimerStays: waits that end early leave the timer where it is, also for a longer wait, but not
// where it is too late or is about to expire for nothing.
func TestTimerStays(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			// at waits for what is there as soon as it waits, at most d, and returns what the timer
			// was set to.
			at := func(d time.Duration) time.Duration {
				set, err := loop.Go(th, func(*loop.Thread) (time.Duration, error) {
					return loop.TimerAt(th), nil
				}).Await(th, d)
				want(t, err, nil)
				return set
			}
			first := at(time.Hour)
			if second := at(time.Hour + 100*time.Millisecond); second != first {
				t.Errorf("moved by %v for a wait that ends a little later", second-first)
			}
			if third := at(2 * time.Hour); third != first {
				t.Errorf("moved by %v for a wait that ends an hour later", third-first)
			}
			fourth := at(time.Minute)
			if fourth > first-58*time.Minute {
				t.Errorf("moved by %v for a wait that ends 59 minutes earlier", fourth-first)
			}
			short := at(900 * time.Millisecond)
			if short > fourth-58*time.Second {
				t.Errorf("moved by %v for a wait that ends 59 seconds earlier", short-fourth)
			}
			if last := at(time.Minute); last < short+58*time.Second {
				t.Errorf("moved by %v only for a wait that ends 59 seconds later", last-short)
			}
		})
		mustRun(t, l)
	})
}
