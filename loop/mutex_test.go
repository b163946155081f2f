package loop_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// TestMutexHeldOverAWait: a thread that holds a Mutex waits, and others of its loop that want it
// wait as well, and do not stop the loop.
func TestMutexHeldOverAWait(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		var m loop.Mutex
		var order []int
		for i := range 3 {
			l.Go(func(th *loop.Thread) {
				want(t, m.Lock(th, -1), nil)
				defer m.Unlock()
				order = append(order, i)
				want(t, th.Sleep(time.Millisecond), nil)
				order = append(order, i)
			})
		}
		mustRun(t, l)
		if !slices.Equal(order, []int{0, 0, 1, 1, 2, 2}) || !m.TryLock() {
			t.Errorf("order %v, or it is still locked", order)
		}
	})
}

// TestMutexIsFair: threads of two loops and goroutines get the lock in the order of their coming,
// and none that comes to a free moment gets in front of them.
func TestMutexIsFair(t *testing.T) {
	t.Parallel()
	var m loop.RWMutex
	want(t, m.Lock(nil, -1), nil)
	var order []int // guarded by m
	var loops []*loop.Loop
	var waits []func()
	for i := range 2 {
		l, err := loop.New(loop.Options{Handoff: coro.Handoff(i)})
		want(t, err, nil)
		l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) })
		loops, waits = append(loops, l), append(waits, start(t, l))
	}
	const n = 30
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		took := func(th *loop.Thread) {
			defer all.Done()
			want(t, m.Lock(th, -1), nil)
			order = append(order, i)
			if th != nil {
				th.Yield() // which lets others of the loop try
			}
			m.Unlock()
		}
		if i%3 == 2 {
			go took(nil)
		} else {
			on(t, loops[i%3], func() { loops[i%3].Go(took) })
		}
		for loop.Queued(&m) <= i {
			time.Sleep(10 * time.Microsecond)
		}
	}
	m.Unlock()
	all.Wait()
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("order %v", order)
	}
	for i, l := range loops {
		l.Stop(0)
		waits[i]()
	}
}

// TestMutexGivenUp: a wait that ends early does not get the lock, and leaves nothing in the queue
// that those behind it would wait for.
func TestMutexGivenUp(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		want   error
		giveUp func(parent, waits *loop.Thread)
	}{
		"limit": {loop.ErrDeadlineExceeded, func(p, _ *loop.Thread) {
			p.Loop().Layer().AdvanceClock(2 * time.Hour)
		}},
		"canceled": {loop.ErrCanceled, func(p, _ *loop.Thread) { p.Cancel() }},
		"killed":   {errKilled, func(_, w *loop.Thread) { loop.Kill(w) }},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				var m loop.RWMutex
				behind := 0
				l.Go(func(th *loop.Thread) {
					until := func(what string, cond func() bool) {
						for i := 0; !cond(); i++ {
							if i == 1000 {
								t.Fatal("in vain: ", what)
							}
							th.Yield()
						}
					}
					want(t, m.RLock(th, -1), nil)
					err := errKilled
					w := th.Go(func(th *loop.Thread) error {
						err = m.Lock(th, time.Hour)
						return nil
					})
					until("a writer waits", func() bool { return loop.Queued(&m) == 1 })
					for range 3 { // behind the writer: they may read beside th
						l.Go(func(th *loop.Thread) {
							want(t, m.RLock(th, -1), nil)
							behind++
							m.RUnlock()
						})
					}
					until("readers wait", func() bool { return loop.Queued(&m) == 4 })
					row.giveUp(th, w)
					until("they read", func() bool { return behind == 3 })
					m.RUnlock()
					_ = th.Join()
					want(t, err, row.want)
				})
				mustRun(t, l)
				want(t, m.Lock(nil, 0), nil)
			})
		})
	}
}

var errKilled = errors.New("killed")

// TestMutexOfGoroutines: a goroutine that blocks for it has a limit as well.
func TestMutexOfGoroutines(t *testing.T) {
	t.Parallel()
	var m loop.Mutex
	want(t, m.Lock(nil, 0), nil)
	if m.TryLock() {
		t.Error("locked twice")
	}
	want(t, m.Lock(nil, 0), loop.ErrDeadlineExceeded)
	want(t, m.Lock(nil, time.Millisecond), loop.ErrDeadlineExceeded)
	m.Unlock()
	want(t, m.Lock(nil, time.Hour), nil)
	m.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("unlocked twice")
		}
	}()
	m.Unlock()
}

// TestRWMutexReadersShare: readers hold it together, a writer alone, and readers that come after a
// waiting writer get it after that.
func TestRWMutexReadersShare(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		var m loop.RWMutex
		var trace []string
		note := func(s string) { trace = append(trace, s) }
		hold := func(name string, lock func(*loop.Thread, time.Duration) error, unlock func()) {
			l.Go(func(th *loop.Thread) {
				want(t, lock(th, -1), nil)
				note(name)
				for range 10 {
					th.Yield()
				}
				note("-" + name)
				unlock()
			})
		}
		hold("r1", m.RLock, m.RUnlock)
		hold("r2", m.RLock, m.RUnlock)
		hold("w", m.Lock, m.Unlock)
		hold("r3", m.RLock, m.RUnlock)
		hold("r4", m.RLock, m.RUnlock)
		mustRun(t, l)
		if !slices.Equal(trace, []string{
			"r1", "r2", "-r1", "-r2", "w", "-w", "r3", "r4", "-r3", "-r4",
		}) {
			t.Error(trace)
		}
	})
}

// TestMutexLosesNoWakeup: threads of two loops and goroutines lock, hold over waits, give up and
// are killed, and in the end the lock is free and everyone that did not give up has had it.
func TestMutexLosesNoWakeup(t *testing.T) {
	t.Parallel()
	const threads, rounds = 20, 30
	var m loop.RWMutex
	var writers, readers, had atomic.Int32
	var running sync.WaitGroup
	turn := func(th *loop.Thread, r *rand.Rand) {
		limit := time.Duration(-1)
		if r.IntN(3) == 0 {
			limit = time.Duration(r.IntN(300)) * time.Microsecond
		}
		lock, unlock, count := m.Lock, m.Unlock, &writers
		if r.IntN(2) == 0 {
			lock, unlock, count = m.RLock, m.RUnlock, &readers
		}
		if err := lock(th, limit); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return
		}
		defer unlock()
		count.Add(1)
		defer count.Add(-1)
		had.Add(1)
		if w, r := writers.Load(), readers.Load(); w > 1 || w == 1 && r > 0 {
			t.Errorf("%d writers and %d readers", w, r)
		}
		if th != nil && r.IntN(4) == 0 {
			_ = th.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
		} else if th != nil {
			th.Yield()
		}
	}
	for i := range 2 {
		l, err := loop.New(loop.Options{Handoff: coro.Handoff(i)})
		want(t, err, nil)
		for n := range threads {
			l.Go(func(th *loop.Thread) {
				r := rand.New(rand.NewPCG(uint64(i), uint64(n)))
				for range rounds {
					victim := th.Go(func(th *loop.Thread) error { turn(th, r); return nil })
					if r.IntN(3) == 0 {
						th.Yield()
						loop.Kill(victim)
					}
					_ = th.Join()
				}
			})
		}
		running.Go(func() { mustRun(t, l) })
	}
	for n := range 2 {
		running.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(n)))
			for range rounds {
				turn(nil, r)
			}
		})
	}
	running.Wait()
	want(t, m.Lock(nil, 0), nil)
	if n := loop.Queued(&m); n != 0 || had.Load() == 0 {
		t.Errorf("%d wait, %d had it", n, had.Load())
	}
}

// TestMutexAtAStop: threads that a stop kills, holding the lock or waiting for it, leave it free.
func TestMutexAtAStop(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		var m loop.Mutex
		for range 5 {
			l.Go(func(th *loop.Thread) {
				if m.Lock(th, -1) == nil {
					defer m.Unlock()
					_ = th.Sleep(time.Hour)
				}
			})
		}
		l.Go(func(th *loop.Thread) {
			_ = th.Await(-1, func(context.Context) error {
				want(t, m.Lock(nil, -1), nil) // beside the loop, it gets the lock in its turn
				m.Unlock()
				return context.Canceled
			})
		})
		l.Go(func(*loop.Thread) { l.Stop(0) })
		mustRun(t, l)
		want(t, m.Lock(nil, time.Minute), nil)
		m.Unlock() // for the function beside the loop, which may come last
	})
}
