package rooms

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// SlowMember is a benchmark of an engine: a process publishes 200 messages a second to a room of
// 1,000 in another one, of whom none, or one, takes 20 ms for each. It reports how long a message
// takes to the others, from Publish on, and the p99 with the slow one over that without. The
// measurement is b.N messages long.
func SlowMember(b *testing.B, node func() *Node) {
	from, to := node(), node()
	var without time.Duration // its p99
	for _, row := range []struct {
		name string
		slow int
	}{{"without", 0}, {"with", 1}} {
		b.Run(row.name, func(b *testing.B) {
			p99 := slowMember(b, from, to, row.slow)
			if row.slow == 0 {
				without = p99
			} else if without > 0 {
				b.ReportMetric(float64(p99)/float64(without), "x-p99")
			}
		})
	}
}

func slowMember(b *testing.B, from, to *Node, slow int) (p99 time.Duration) {
	const members, rate = 1000, 200
	start, topic := time.Now(), fmt.Sprint("room", ups.Add(1))
	room := from.Hub.Topic(topic)
	left := make(chan struct{})
	defer close(left)

	// Of the one loop of the node.
	var took []time.Duration
	came, dropped := 0, 0

	all := make(chan struct{}, 1)
	want := (members - slow) * (b.N + 1)
	begun := make(chan struct{}, members)
	for i := range members {
		queue := 4096 // a busy machine is nobody's fault
		if i < slow {
			queue = pubsub.DefaultQueue
		}
		to.Loops.Go(0, func(th *loop.Thread) {
			sub := to.Hub.Topic(topic).Subscribe(th, pubsub.Options{Queue: queue})
			end := loop.FromChan(left)
			begun <- struct{}{}
			for {
				if which, err := th.AwaitAny(-1, sub, end); which != 0 || err != nil {
					return
				}
				for m := sub.Next(); m != nil; m = sub.Next() {
					if i < slow {
						_ = th.Sleep(20 * time.Millisecond)
						continue
					}
					at := time.Duration(binary.BigEndian.Uint64(m.Data))
					took = append(took, time.Since(start)-at)
					if came++; came == want {
						all <- struct{}{}
					}
				}
				if i >= slow && sub.Dropped() > 0 {
					dropped++
				}
			}
		})
	}
	for range members {
		<-begun
	}
	say := func() {
		room.Publish(binary.BigEndian.AppendUint64(nil, uint64(time.Since(start))))
	}
	time.Sleep(100 * time.Millisecond) // the broker knows that it is followed
	say()
	b.ResetTimer()
	begin := time.Now()
	for i := range b.N {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / rate)))
		say()
	}
	select {
	case <-all:
	case <-time.After(Limit):
	}
	lost := make(chan int)
	to.Loops.Go(0, func(*loop.Thread) {
		n := dropped
		go func() { lost <- n }()
	})
	if n := <-lost; n > 0 || len(took) < want {
		b.Fatalf("%d of %d deliveries to the others; %d times one had lost some", len(took), want, n)
	}
	slices.Sort(took)
	quantile := func(name string, share float64) time.Duration {
		at := took[int(share*float64(len(took)-1))]
		b.ReportMetric(float64(at.Microseconds())/1000, name)
		return at
	}
	quantile("p50-ms", 0.5)
	return quantile("p99-ms", 0.99)
}
