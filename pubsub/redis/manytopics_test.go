package redis_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/pubsub"
)

// BenchmarkManyTopics is a message there and back between two nodes, in one of so many topics that
// both follow.
func BenchmarkManyTopics(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			broker := broker.Start(b, "--appendonly", "no")
			one, two := startNode(b, broker.URL()), startNode(b, broker.URL())
			var at1, at2 *follower
			for i := range n {
				name := fmt.Sprint("room", i)
				at1, at2 = one.Follow(one.Hub.Topic(name), pubsub.Options{Queue: 64}),
					two.Follow(two.Hub.Topic(name), pubsub.Options{Queue: 64})
			}
			room := fmt.Sprint("room", n-1)
			room1, room2 := one.Hub.Topic(room), two.Hub.Topic(room)
			publish(room1, "up")
			at1.Expect("up")
			at2.Expect("up")
			for b.Loop() {
				publish(room1, "there")
				at2.Expect("there")
				publish(room2, "back")
				at1.Expect("there", "back")
				at2.Expect("back")
			}
		})
	}
}
