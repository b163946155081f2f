package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// again is a thread that begins anew whenever it has ended, until it is told to stop.
type again struct {
	loop.Thread
	of   *loop.Loop
	stop *bool
}

func (a *again) Run(*loop.Thread) coro.Code { return coro.Abort }
func (a *again) ClientGone()                {}
func (a *again) Ended() {
	if !*a.stop {
		a.of.Layer().Begin(&a.Thread, a)
	}
}

// TestNotifiedWhileBegun: a goroutine that still notifies a thread which has ended meanwhile may
// meet the next one in the same record. The race detector sees what the two share.
func TestNotifiedWhileBegun(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		stop, over := false, make(chan struct{})
		l.Go(func(th *loop.Thread) {
			a := &again{of: l, stop: &stop}
			l.Layer().Begin(&a.Thread, a)
			notifying := loop.Call(th, func() (int, error) {
				for n := 0; ; n++ {
					select {
					case <-over:
						return n, nil
					default:
						loop.Notify(&a.Thread)
					}
				}
			})
			for range 100 {
				must.Do(t, th.Sleep(0))
			}
			stop = true
			close(over)
			must.Get(notifying.Await(th, -1))(t)
			l.Stop(0)
		})
		mustRun(t, l)
	})
}

// TestPassedOnIsFair: threads that let each other run in the same turn, without end, do not keep
// those of timers and events waiting.
func TestPassedOnIsFair(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		stop := false
		l.Go(func(th *loop.Thread) {
			for range 2 {
				a := &again{of: l, stop: &stop}
				l.Layer().Begin(&a.Thread, a)
			}
			must.Do(t, th.Sleep(5*time.Millisecond))
			stop = true
			l.Stop(0)
		})
		mustRun(t, l)
	})
}
