package pubsub_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// BenchmarkPublish is one message to N subscribers, half of them on each of two loops, until all
// have received it and wait again.
//
//	publish-ns      Publish alone
//	ns/delivery     the whole, by subscriber: its thread wakes up, takes the message, waits again
//	waits/delivery  returns of epoll_wait, of both loops
func BenchmarkPublish(b *testing.B) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		for _, n := range []int{1, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%d/%v", n, h), func(b *testing.B) { benchmarkPublish(b, h, n) })
		}
	}
}

func benchmarkPublish(b *testing.B, h coro.Handoff, n int) {
	var hub pubsub.Hub
	topic := hub.Topic("room")
	ls := loops.Start(b, modes.Mode{Handoff: h, Loops: 2}, nil, nil)
	var left atomic.Int64
	all := make(chan struct{}, 1)
	ready := func() {
		if left.Add(-1) == 0 {
			all <- struct{}{}
		}
	}
	left.Store(int64(n))
	for i := range n {
		ls.Go(i, func(th *loop.Thread) {
			sub := topic.Subscribe(th, pubsub.Options{})
			ready()
			for {
				if _, err := sub.Receive(-1); err != nil {
					return
				}
				ready()
			}
		})
	}
	<-all
	data := []byte("a message that somebody has written in a chat")
	waits := countWaits(b, ls)
	var publishing time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		left.Store(int64(n))
		start := time.Now()
		topic.Publish(data)
		publishing += time.Since(start)
		<-all
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(publishing.Nanoseconds())/float64(b.N), "publish-ns")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/delivery")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N)/float64(n), "allocs/delivery")
	b.ReportMetric(float64(countWaits(b, ls)-waits)/float64(b.N), "waits/op")
	ls.Stop(0)
}

// BenchmarkPublishOn is Publish by a thread of one of the loops, with N subscribers that wait on it
// and as many on another: what a handler pays. The loop gets to them every 64 messages, which is
// not counted.
func BenchmarkPublishOn(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var hub pubsub.Hub
			ls := loops.Start(b, modes.Mode{Handoff: coro.Channel, Loops: 2}, nil, nil)
			var counts [2]int
			for i := range counts {
				waiting(b, ls, i, n, hub.Topic("room"), pubsub.Options{}, &counts[i])
			}
			done := make(chan struct{})
			data := []byte("a message that somebody has written in a chat")
			ls.Go(0, func(th *loop.Thread) {
				defer close(done)
				topic := hub.Topic("room")
				var publishing time.Duration
				for i := 0; b.Loop(); i++ {
					start := time.Now()
					topic.Publish(data)
					publishing += time.Since(start)
					if i%64 == 63 {
						th.Yield()
					}
				}
				b.ReportMetric(float64(publishing.Nanoseconds())/float64(b.N), "publish-ns")
			})
			<-done
			ls.Stop(0)
		})
	}
}

// countWaits returns how often epoll_wait has returned, on all loops.
func countWaits(b *testing.B, ls *loops.Loops) (n int64) {
	for _, l := range ls.All {
		loops.On(b, l, func(l *loop.Loop) { n += l.Stats().Waits })
	}
	return n
}
