package loop_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	until "github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// A loop waits for a function in place, and goes on without one that says that it waits, or that
// waits without a word, or that never returns.
func TestRunInPlace(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		// inPlace runs f in place, and reports whether it has returned in time.
		inPlace := func(th *loop.Thread, f func(p loop.InPlace)) bool {
			for tries := 0; !th.Layer().MayRunInPlace(); tries++ {
				if tries == 1000 {
					t.Fatal("it may never run in place")
				}
				th.Yield()
			}
			_, returned := th.Layer().RunInPlace(f)
			return returned
		}
		l.Go(func(th *loop.Thread) {
			awaited := 0
			for range 100 {
				ran := new(loop.Promise[int])
				if inPlace(th, func(loop.InPlace) { ran.Resolve(1) }) {
					awaited++
				}
				if _, err := ran.Await(th, time.Minute); err != nil {
					t.Error("at once:", err)
				}
			}
			if awaited < 50 { // the machine may have stopped the loop for a while
				t.Errorf("the loop has waited for %d of 100 functions", awaited)
			}
			for _, says := range []bool{true, false} {
				goOn, returned := make(chan struct{}), new(loop.Promise[int])
				if inPlace(th, func(p loop.InPlace) {
					defer returned.Resolve(1)
					if says {
						p.Leave()
					}
					<-goOn
				}) {
					t.Error("a function that waits has returned")
				}
				close(goOn)
				if _, err := returned.Await(th, time.Minute); err != nil {
					t.Error("waits:", err)
				}
			}
			if !inPlace(th, func(loop.InPlace) {
				runtime.LockOSThread()
				runtime.Goexit()
			}) {
				t.Log("Goexit was late")
			}
		})
		stays := make(chan struct{})
		t.Cleanup(func() { close(stays) })
		l.Go(func(th *loop.Thread) { inPlace(th, func(loop.InPlace) { <-stays }) })
		mustRun(t, l)
	})
}

// TestRunInPlaceMany: threads whose functions return, wait, compute for long and exit, while others
// are started and killed.
func TestRunInPlaceMany(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var began, over atomic.Int64
		for i := range 64 {
			l.Go(func(th *loop.Thread) {
				for n := range 200 {
					if !th.Layer().MayRunInPlace() {
						th.Yield()
						continue
					}
					th.Layer().RunInPlace(func(p loop.InPlace) {
						began.Add(1)
						defer over.Add(1)
						switch (i*7 + n*13) % 101 {
						case 0:
							p.Leave()
							runtime.Gosched()
						case 1:
							time.Sleep(3 * time.Millisecond)
						case 2:
							runtime.Goexit()
						case 3:
							p.Leave()
							runtime.LockOSThread()
						}
					})
					switch n % 10 {
					case 0:
						_ = th.Sleep(time.Millisecond)
					case 1:
						th.Go(func(th *loop.Thread) error { return th.Sleep(time.Minute) })
						th.Yield()
						th.Cancel()
						_ = th.Join()
					}
				}
			})
		}
		mustRun(t, l)
		until.Until(t, "functions that are late", func() bool { return began.Load() == over.Load() })
		if began.Load() < 64 {
			t.Errorf("%d functions have run in place", began.Load())
		}
	})
}

// TestLateInPlace: if one function of a turn is late, those of the other threads get no place
// before the loop has looked for events.
func TestLateInPlace(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const threads = 100
		placed := 0
		begin, stays := new(loop.Promise[int]), make(chan struct{})
		var turn int64
		for range threads {
			l.Go(func(th *loop.Thread) {
				_, _ = begin.Await(th, time.Minute)
				if th.Layer().MayRunInPlace() && l.Stats().Waits == turn {
					placed++
					th.Layer().RunInPlace(func(loop.InPlace) { <-stays })
				}
			})
		}
		l.Go(func(th *loop.Thread) {
			for !th.Layer().MayRunInPlace() {
				th.Yield()
			}
			begin.Resolve(1)
			turn = l.Stats().Waits + 1 // they go on in the next turn
		})
		mustRun(t, l)
		close(stays)
		if placed > 1 {
			t.Errorf("%d functions in place in the turn of a late one", placed)
		}
	})
}
