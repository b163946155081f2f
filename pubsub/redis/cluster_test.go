package redis_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// The shards have slots of their own, as evenly spread as the slots.
func TestShards(t *testing.T) {
	t.Parallel()
	do := broker.Start(t, "--cluster-enabled", "yes").KeepConn()
	for i, tag := range redis.Tags {
		if slot := do(fmt.Sprintf("CLUSTER KEYSLOT lwango:{%d}:x", tag)).(int64); slot/256 != int64(i) {
			t.Errorf("shard %d has slot %d", i, slot)
		}
	}
}

// topicsOf returns a topic of each primary.
func topicsOf(n *node, c *broker.Cluster) []string {
	names := make([]string, len(c.Primaries))
	for i, missing := 0, len(names); missing > 0; i++ {
		name := fmt.Sprint("room", i)
		if of := c.Owner(n.engine.Key(name)); names[of] == "" {
			names[of], missing = name, missing-1
		}
	}
	return names
}

// Topics are spread over the nodes of a cluster, and each has its history and its order.
func TestCluster(t *testing.T) {
	ci.Only(t, "starts a cluster")
	c := broker.StartCluster(t)
	one, two := startNode(t, c.URL()), startNode(t, c.URL())
	names := topicsOf(one, c)
	for i, name := range names {
		at := two.Follow(two.Hub.Topic(name), pubsub.Options{})
		publish(one.Hub.Topic(name), numbered("a", 0, 500)...)
		at.Expect(numbered("a", 0, 500)...)
		at.Quiet()
		one.Acknowledged()
		if n := c.Primaries[i].Do("XLEN " + one.engine.Key(name)).(int64); n != 500 {
			t.Errorf("%s: %d on its node", name, n)
		}
		three := startNode(t, c.URL())
		three.Follow(three.Hub.Topic(name),
			pubsub.Options{History: 3}).Expect(numbered("a", 497, 500)...)
	}
	for i := range 300 { // more than one reader could take
		name := fmt.Sprint("many", i)
		at := two.Follow(two.Hub.Topic(name), pubsub.Options{})
		publish(one.Hub.Topic(name), "x")
		at.Expect("x")
	}
	if !one.Hub.Carried() || !two.Hub.Carried() {
		t.Error("not carried")
	}
}

// A node is killed, and a replica takes over. Topics of other nodes go on meanwhile. Nothing is
// lost, because a message counts as sent when a replica has it.
func TestNodeOfAClusterIsKilled(t *testing.T) {
	ci.Only(t, "starts a cluster, and waits until a replica has taken over")
	c := broker.StartCluster(t, 0, 0)
	url := c.URL() + "?replicas=1&addr=127.0.0.1:" + fmt.Sprint(c.Primaries[1].Port)
	one, two := startNode(t, url), startNode(t, url)
	names := topicsOf(one, c)
	at := two.Follow(two.Hub.Topic(names[0]), pubsub.Options{})
	other := two.Follow(two.Hub.Topic(names[1]), pubsub.Options{})
	stop := one.Traffic(names[0], "a")
	at.Expect(numbered("a", 0, 100)...)
	c.Primaries[0].Kill()
	two.Status.Expect("local")
	publish(one.Hub.Topic(names[1]), "meanwhile") // whose node has no replica: it comes all the same
	other.Expect("meanwhile")
	if two.Hub.Carried() {
		t.Error("the replica has taken over before the message of another node has come")
	}
	two.Status.Expect("carried")
	at.Expect(numbered("a", 100, 1000)...)
	n := stop()
	at.Expect(numbered("a", 1000, n)...)
	wait.Until(t, "only what has no replica is pending", func() bool {
		return one.engine.Pending() == 1
	})
	at.Quiet()
	if n := one.engine.Lost(); n > 0 {
		t.Errorf("lost %d", n)
	}
	// The URL's first node is gone, and a new process finds the cluster by another.
	three := startNode(t, url)
	three.Follow(three.Hub.Topic(names[0]), pubsub.Options{History: 1}).Expect(fmt.Sprint("a", n-1))
}

// A node stands still, which breaks no connection.
func TestNodeOfAClusterStandsStill(t *testing.T) {
	ci.Only(t, "starts a cluster, and waits until a replica has taken over")
	c := broker.StartCluster(t, 2, 2)
	url := c.URL() + "?replicas=1"
	one, two := startNode(t, url), startNode(t, url)
	name := topicsOf(one, c)[2]
	at := two.Follow(two.Hub.Topic(name), pubsub.Options{})
	publish(one.Hub.Topic(name), "up")
	at.Expect("up")
	c.Primaries[2].Signal(syscall.SIGSTOP)
	publish(one.Hub.Topic(name), numbered("a", 0, 500)...)
	at.Expect(numbered("a", 0, 500)...)
	c.Primaries[2].Signal(syscall.SIGCONT)
	publish(one.Hub.Topic(name), "end")
	at.Expect("end")
	at.Quiet()
}

// A slot moves to another node, key by key, while messages come: the nodes answer MOVED, ASK and
// TRYAGAIN.
func TestSlotMoves(t *testing.T) {
	ci.Only(t, "starts a cluster")
	c := broker.StartCluster(t)
	one, two := startNode(t, c.URL()), startNode(t, c.URL())
	name := topicsOf(one, c)[0]
	key := one.engine.Key(name)
	from, to := c.Primaries[0], c.Primaries[1]
	slot := from.Do("CLUSTER KEYSLOT " + key)
	at := two.Follow(two.Hub.Topic(name), pubsub.Options{})
	stop := one.Traffic(name, "a")
	at.Expect(numbered("a", 0, 100)...)
	to.Do(fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, from.NodeID()))
	from.Do(fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, to.NodeID()))
	from.Do(fmt.Sprintf("MIGRATE 127.0.0.1 %d %s 0 5000", to.Port, key))
	two.Status.Expect("local")
	wait.Until(t, "the slot is empty", func() bool {
		keys := from.Do(fmt.Sprintf("CLUSTER GETKEYSINSLOT %d 10", slot)).([]any)
		for _, key := range keys {
			from.Do(fmt.Sprintf("MIGRATE 127.0.0.1 %d %s 0 5000", to.Port, key))
		}
		return len(keys) == 0
	})
	for _, n := range append(c.Primaries[1:], from) {
		n.Do(fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, to.NodeID()))
	}
	two.Status.Expect("carried")
	n := stop()
	at.Expect(numbered("a", 100, n)...)
	one.Acknowledged()
	at.Quiet()
	if lost := one.engine.Lost(); lost > 0 {
		t.Errorf("lost %d", lost)
	}
	if found := to.Do("XLEN " + key).(int64); found < int64(n) {
		t.Errorf("%d of %d on the new node", found, n)
	}
}

// A server that is no cluster, and the other way round, are not taken for what they are not.
func TestNoCluster(t *testing.T) {
	b := broker.Start(t)
	one := startNode(t, strings.Replace(b.URL(), "redis:", "redis+cluster:", 1))
	one.Status.Expect("local")
}

// TestPresenceOfACluster: who is there, while the node of the room is killed and a replica takes
// over.
func TestPresenceOfACluster(t *testing.T) {
	ci.Only(t, "starts a cluster, and waits until a replica has taken over")
	c := broker.StartCluster(t, 0, 1, 2)
	url := c.URL() + "?replicas=1"
	for _, p := range c.Primaries {
		url += fmt.Sprint("&addr=127.0.0.1:", p.Port)
	}
	n := startNode(t, url)
	rooms.Presence(t, n.Node, url, func() { c.Primaries[c.Owner(n.engine.Key("room"))].Kill() })
}
