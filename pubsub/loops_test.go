package pubsub_test

import (
	"sync"
	"testing"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// loops are several, each running on a goroutine of its own until the test ends or stop is called.
type loops struct {
	t       testing.TB
	all     []*loop.Loop
	running sync.WaitGroup
	once    sync.Once
}

func startLoops(t testing.TB, n int, h coro.Handoff) *loops {
	ls := &loops{t: t}
	for range n {
		l, err := loop.New(loop.Options{Handoff: h})
		if err != nil {
			t.Fatal(err)
		}
		l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) }) // keeps it running
		ls.all = append(ls.all, l)
		ls.running.Go(func() {
			if err := l.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(ls.stop)
	return ls
}

// stop kills what is left.
func (ls *loops) stop() {
	ls.once.Do(func() {
		for _, l := range ls.all {
			l.Stop(0)
		}
		ls.running.Wait()
	})
}

// start starts f as a thread of the i-th loop, counted round and round.
func (ls *loops) start(i int, f func(th *loop.Thread)) {
	l := ls.all[i%len(ls.all)]
	if err := l.Post(func() { l.Go(f) }); err != nil {
		ls.t.Error(err)
	}
}

// on calls f on the i-th loop, and waits until it has returned.
func (ls *loops) on(i int, f func(l *loop.Loop)) {
	done := make(chan struct{})
	if err := ls.all[i].Post(func() { f(ls.all[i]); close(done) }); err != nil {
		ls.t.Error(err)
		return
	}
	<-done
}

// waits returns how often epoll_wait has returned, on all loops.
func (ls *loops) waits() (n int64) {
	for i := range ls.all {
		ls.on(i, func(l *loop.Loop) { n += l.Stats().Waits })
	}
	return n
}
