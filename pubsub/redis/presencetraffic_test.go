package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// traffic returns how many bytes the broker has received and sent.
func traffic(b *broker.Broker) (n int) {
	stats := b.Do("INFO stats").(string)
	for _, name := range []string{"total_net_input_bytes", "total_net_output_bytes"} {
		_, rest, _ := strings.Cut(stats, name+":")
		value, _, _ := strings.Cut(rest, "\r")
		bytes, _ := strconv.Atoi(value)
		n += bytes
	}
	return n
}

// Three processes have 1,000 rooms of 10 members together. One more who joins costs the broker 2 kB
// at most, what it receives and sends for all processes together.
func TestPresenceTraffic(t *testing.T) {
	t.Parallel()
	const rooms, members, joins = 1000, 10, 100
	b := broker.Start(t)
	nodes := []*node{startNode(t, b.URL()), startNode(t, b.URL()), startNode(t, b.URL())}
	list := func(n *node, room int) pubsub.Change {
		return n.Hub.Topic(fmt.Sprint("room ", room)).Presence().List()
	}
	for i := range rooms * members {
		topic := nodes[i%len(nodes)].Hub.Topic(fmt.Sprint("room ", i/members))
		topic.Presence().Join(fmt.Sprint("Person ", i))
	}
	for _, n := range nodes {
		wait.Until(t, "all are there", func() bool {
			for room := range rooms {
				if c := list(n, room); c.Count != members || c.Stale != "" { // all lists were sent
					return false
				}
			}
			return true
		})
	}
	before := traffic(b)
	for i := range joins {
		topic := nodes[i%len(nodes)].Hub.Topic(fmt.Sprint("room ", i))
		topic.Presence().Join(fmt.Sprint("Newcomer ", i))
		for _, n := range nodes {
			wait.Until(t, "a newcomer", func() bool { return list(n, i).Count == members+1 })
		}
	}
	each := (traffic(b) - before) / joins
	if t.Logf("%d bytes a join", each); each > 2048 {
		t.Errorf("a join costs %d bytes", each)
	}
}
