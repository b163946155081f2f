package nats_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/pubsub"
)

func TestOneRoomOfSeveralProcesses(t *testing.T) {
	b := startBroker(t)
	rooms.OneRoom(t, func() *rooms.Node { return startNode(t, b.url()) })
}

// Of a topic with more messages than a hub keeps, the last ones are found, wherever they are in the
// stream.
func TestLongHistory(t *testing.T) {
	b := startBroker(t)
	one := startNode(t, b.url())
	for i := range 1000 { // the first topic's messages are far apart, and then close together
		publish(one.Hub.Topic("first"), fmt.Sprint("a", i))
		if i < 500 {
			publish(one.Hub.Topic("second"), numbered(fmt.Sprint("b", i, "."), 0, 4)...)
		}
	}
	publish(one.Hub.Topic("third"), numbered("c", 0, 500)...)
	one.Acknowledged()
	two := startNode(t, b.url())
	for _, row := range []struct{ topic, first, last string }{
		{"first", "a936", "a999"}, {"second", "b484.0", "b499.3"}, {"third", "c436", "c499"},
	} {
		at := two.Follow(two.Hub.Topic(row.topic), pubsub.Options{History: 64})
		if got := at.Collect(64); got[0] != row.first || got[63] != row.last {
			t.Errorf("%s: %s to %s", row.topic, got[0], got[63])
		}
		at.Quiet()
	}
	// As many as are asked for.
	three := startNode(t, b.url())
	got := three.Follow(three.Hub.Topic("second"), pubsub.Options{History: 1500}).Collect(1500)
	if got[0] != "b125.0" || got[1499] != "b499.3" {
		t.Errorf("%s to %s", got[0], got[1499])
	}
}

// The server's own topics, such as that of what is purged from its cache, go the same way, and no
// pattern gets them.
func TestTopicsOfServer(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	publish(one.Hub.ServerTopic("purge"), "before")
	one.Acknowledged()
	all := two.Follow(two.Hub.Pattern(">"), pubsub.Options{})
	at := two.Follow(two.Hub.ServerTopic("purge"), pubsub.Options{History: 5})
	at.Expect("before")
	publish(one.Hub.ServerTopic("purge"), "now")
	at.Expect("now")
	publish(one.Hub.Topic("room"), "said")
	all.Expect("said")
	all.Quiet()
	at.Quiet()
}

// BenchmarkThroughput is what a process sends to two others, and what each of them receives.
func BenchmarkThroughput(b *testing.B) {
	broker := startBroker(b)
	rooms.Throughput(b, 2, func() *rooms.Node { return startNode(b, broker.url()) })
}
