package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/pubsub"
)

// unblock ends the reads that wait for something.
func unblock(b *broker.Broker) {
	for line := range strings.Lines(b.Do("CLIENT LIST").(string)) {
		if id, _, _ := strings.Cut(line, " "); strings.Contains(line, "cmd=xread ") {
			b.Do("CLIENT UNBLOCK " + strings.TrimPrefix(id, "id="))
		}
	}
}

// The broker forgets the stream of all topics, and no connection breaks: a pattern goes on.
func TestStreamOfAllIsGone(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at := one.Follow(one.Hub.Pattern("room.*"), pubsub.Options{})
	heard(t, b)
	for i, command := range []string{"FLUSHALL", "DEL lwango:all"} {
		publish(two.Hub.Topic("room.1"), fmt.Sprint("a", i))
		at.Expect(fmt.Sprint("a", i))
		b.Do(command)
		unblock(b)
		heard(t, b)
		publish(two.Hub.Topic("room.1"), fmt.Sprint("b", i))
		at.Expect(fmt.Sprint("b", i))
	}
	at.Quiet()
}

// A subscriber that reads nothing holds up its own pattern, and no other one.
func TestSlowPattern(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	const standing = 250 * time.Millisecond // for so long the feed waits for it
	best := time.Hour
	for i := range 5 { // the machine may be busy
		slow, fast := fmt.Sprint("slow.", i), fmt.Sprint("fast.", i)
		leave := join(one, one.Hub.Pattern(slow), pubsub.Options{Queue: 4})
		at := one.Follow(one.Hub.Pattern(fast), pubsub.Options{})
		heard(t, b)
		start := time.Now()
		publish(two.Hub.Topic(slow), numbered("a", 0, 20)...)
		// the first perhaps in the read of the slow ones
		for _, text := range []string{"first", "second"} {
			publish(two.Hub.Topic(fast), text)
			at.Expect(text)
		}
		best = min(best, time.Since(start))
		leave()
		if best < standing/2 {
			return
		}
	}
	t.Errorf("it has taken %v at least", best)
}
