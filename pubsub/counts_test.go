package pubsub_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// TestCounts: all topics count, and those with most subscribers are named.
func TestCounts(t *testing.T) {
	hub := new(pubsub.Hub)
	if n, subs, bytes, largest := hub.Counts(3); n != 0 || subs != 0 || bytes != 0 ||
		len(largest) != 0 {
		t.Errorf("%d, %d, %d, %v", n, subs, bytes, largest)
	}
	loops.Run(t, func(th *loop.Thread) {
		for i := range 10 {
			for range i {
				hub.Topic(fmt.Sprint(i)).Subscribe(th, pubsub.Options{})
			}
		}
		publish(hub.Topic("0"), "history")
		n, subs, bytes, largest := hub.Counts(3)
		if n != 10 || subs != 45 || bytes == 0 {
			t.Errorf("%d topics with %d subscriptions and %d bytes", n, subs, bytes)
		}
		if want := []pubsub.TopicCounts{{Name: "9", Subscribers: 9}, {Name: "8", Subscribers: 8},
			{Name: "7", Subscribers: 7}}; !slices.Equal(largest, want) {
			t.Errorf("%v", largest)
		}
	})
}

// TestCountsHoldNothingUp: while a look at all topics takes its time, other topics are found.
func TestCountsHoldNothingUp(t *testing.T) {
	hub := new(pubsub.Hub)
	for i := range 100 {
		publish(hub.Topic(fmt.Sprint(i)), "x")
	}
	release := pubsub.Hold(hub, "50")
	counted := make(chan int, 1)
	go func() {
		n, _, _, _ := hub.Counts(1)
		counted <- n
	}()
	wait.Until(t, "the look waits for the topic", func() bool {
		all := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(stack, "sync.Mutex.Lock") && strings.Contains(stack, "(*Hub).Counts") {
				return true
			}
		}
		return false
	})
	published := make(chan struct{})
	go func() {
		publish(hub.Topic("another"), "x")
		close(published)
	}()
	select {
	case <-published:
	case <-time.After(wait.Patience):
		t.Error("another topic waits for the look at all of them")
	}
	release()
	<-published
	if n := <-counted; n != 100 {
		t.Errorf("%d topics", n)
	}
}
