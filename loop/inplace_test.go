package loop_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// A loop waits for a function in place, and goes on without one that says that it waits, or that
// waits without a word, or that never returns.
func TestRunInPlace(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		late := 0
		await := func(th *loop.Thread, what string, f func(p loop.InPlace), meanwhile func()) {
			returned := new(loop.Promise[int])
			l.Layer().RunInPlace(func(p loop.InPlace) {
				defer returned.Resolve(1)
				f(p)
			}, func() { late++ })
			th.Yield() // it has begun when the thread goes on
			meanwhile()
			if _, err := returned.Await(th, time.Minute); err != nil {
				t.Error(what, err)
			}
		}
		l.Go(func(th *loop.Thread) {
			awaited := 0
			for range 100 {
				var ran atomic.Bool
				await(th, "at once", func(loop.InPlace) { ran.Store(true) }, func() {
					if ran.Load() {
						awaited++
					}
				})
			}
			if awaited < 50 { // the machine may have stopped the loop for a while
				t.Errorf("the loop has waited for %d of 100 functions", awaited)
			}
			// One that comes 5 ms after the last may have a goroutine: then it is tried again.
			for _, says := range []bool{true, false} {
				late = 0
				for tries := 0; late == 0; tries++ {
					if tries == 100 {
						t.Error("the loop has never gone on without a function")
						return
					}
					goOn := make(chan struct{})
					await(th, "waits", func(p loop.InPlace) {
						if says {
							p.Leave()
						}
						<-goOn
					}, func() { close(goOn) })
				}
			}
			await(th, "Goexit, with a lock", func(loop.InPlace) {
				runtime.LockOSThread()
				runtime.Goexit()
			}, func() {})
		})
		stays := make(chan struct{})
		t.Cleanup(func() { close(stays) })
		l.Go(func(th *loop.Thread) {
			ran := new(loop.Promise[int])
			l.Layer().RunInPlace(func(loop.InPlace) { <-stays }, func() {})
			l.Layer().RunInPlace(func(loop.InPlace) { ran.Resolve(1) }, func() {})
			if _, err := ran.Await(th, time.Minute); err != nil {
				t.Error("what was to run in place as well:", err)
			}
		})
		mustRun(t, l)
	})
}
