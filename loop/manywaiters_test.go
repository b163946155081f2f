package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// linear fails unless twenty times as much takes about twenty times as long, and not four hundred
// times. took gives processor time, which other processes add little to, and the least of several
// tries counts.
func linear(t *testing.T, took func(n int) time.Duration) {
	t.Helper()
	const n = 2000
	for try := 1; ; try++ {
		few, many := took(n), took(20*n)
		for range 4 {
			few, many = min(few, took(n)), min(many, took(20*n))
		}
		if many < 120*few {
			return
		}
		if try == 5 {
			t.Errorf("%d: %v, %d: %v", n, few, 20*n, many)
			return
		}
	}
}

// TestGivingUpInBulk: thousands of threads that give up at once do not hold the loop.
func TestGivingUpInBulk(t *testing.T) {
	t.Run("waiters of a promise", func(t *testing.T) {
		linear(t, func(n int) time.Duration {
			var p loop.Promise[int]
			threads := make([]loop.Thread, n)
			for i := range threads {
				must.Do(t, p.Watch(&threads[i]))
			}
			begin := leak.ProcessorTime()
			for i := range threads {
				p.Unwatch(&threads[n-1-i])
			}
			return leak.ProcessorTime() - begin
		})
	})
	t.Run("functions for a stuck worker", func(t *testing.T) {
		l := must.Get(loop.New(loop.Options{Workers: 1}))(t)
		stuck := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			blocked := loop.Call(th, func() (int, error) { <-stuck; return 0, nil })
			linear(t, func(n int) time.Duration {
				mark := th.Mark()
				for range n {
					loop.Call(th, func() (int, error) { t.Error("it has run"); return 0, nil })
				}
				if got := l.Stats().Queued; got != n {
					t.Errorf("%d wait, want %d", got, n)
				}
				begin := leak.ProcessorTime()
				th.RunDeferred(mark)
				return leak.ProcessorTime() - begin
			})
			close(stuck)
			_, _ = blocked.Await(th, -1)
		})
		start(t, l)()
	})
}

// TestWaitersKeepOrder: however many they are, they are told in the order in which they came, each
// as often as it waits, and those that have left are not.
func TestWaitersKeepOrder(t *testing.T) {
	for _, n := range []int{1, 5, 16, 17, 500} {
		l := must.Get(loop.New(loop.Options{Handoff: coro.Direct}))(t)
		var p loop.Promise[int]
		var told []int
		waiting := 0
		for i := range n {
			l.Go(func(th *loop.Thread) {
				waiting++
				if i%3 == 2 { // gives up, for one of two
					_, _ = th.AwaitAny(time.Millisecond, &p)
				}
				if i%6 == 2 {
					return
				}
				if _, err := th.AwaitAny(-1, &p, &p); err != nil {
					t.Error(err)
				}
				told = append(told, i)
			})
		}
		l.Go(func(th *loop.Thread) {
			_ = th.Sleep(50 * time.Millisecond)
			if got := loop.Waiting(&p); waiting != n || got != n-(n+3)/6 {
				t.Errorf("of %d, %d began to wait and %d do", n, waiting, got)
			}
			p.Resolve(1)
		})
		mustRun(t, l)
		// Those that have waited twice came last.
		var want []int
		for i := range n {
			if i%3 != 2 {
				want = append(want, i)
			}
		}
		for i := range n {
			if i%6 == 5 {
				want = append(want, i)
			}
		}
		if len(told) != len(want) {
			t.Fatalf("told %v, want %v", told, want)
		}
		for i := range want {
			if told[i] != want[i] {
				t.Fatalf("told %v, want %v", told, want)
			}
		}
	}
}
