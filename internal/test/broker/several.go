package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/wait"
)

// StartSentinel starts a sentinel, which watches a primary under the name main. It calls a primary
// dead after a third of a second, and decides alone.
func StartSentinel(t testing.TB, primary *Broker) *Broker {
	t.Helper()
	return start(&Broker{t: t, sentinel: true, Args: []string{
		fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 1", primary.Port),
		"sentinel down-after-milliseconds main 300",
		"sentinel failover-timeout main 1000",
	}})
}

// AwaitReplica waits until the sentinel knows a replica.
func (b *Broker) AwaitReplica(replica *Broker) {
	b.t.Helper()
	wait.Until(b.t, "the sentinel knows of the replica", func() bool {
		return strings.Contains(fmt.Sprint(b.Do("SENTINEL REPLICAS main")), fmt.Sprint(replica.Port))
	})
}

// Cluster is brokers that are one cluster.
type Cluster struct {
	Primaries []*Broker // with equal shares of the slots, in order
	Replicas  []*Broker
}

// StartCluster starts a cluster of three primaries, and a replica of each primary that is named by
// its index. A replica takes over about two seconds after its primary has failed.
func StartCluster(t testing.TB, of ...int) *Cluster {
	t.Helper()
	const primaries, slots = 3, 16384
	c := new(Cluster)
	node := func() *Broker {
		return start(&Broker{t: t, cluster: true, Args: []string{"--cluster-node-timeout", "700"}})
	}
	for i := range primaries {
		n := node()
		n.Do(fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1))
		n.Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*slots/primaries, (i+1)*slots/primaries-1))
		c.Primaries = append(c.Primaries, n)
	}
	for range of {
		c.Replicas = append(c.Replicas, node())
	}
	all := append(c.Primaries[:primaries:primaries], c.Replicas...)
	for _, n := range all[1:] {
		_, bus, _ := strings.Cut(n.self(), "@")
		bus, _, _ = strings.Cut(bus, " ")
		all[0].Do(fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %s", n.Port, bus))
	}
	agreed := func() {
		wait.Until(t, "the nodes know each other", func() bool {
			for _, n := range all {
				info := n.Do("CLUSTER INFO").(string)
				if !strings.Contains(info, "cluster_state:ok") ||
					!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(all))) {
					return false
				}
			}
			return true
		})
	}
	agreed()
	for i, n := range c.Replicas {
		n.Do("CLUSTER REPLICATE " + c.Primaries[of[i]].NodeID())
		n.awaitReplicated(c.Primaries[of[i]])
	}
	for _, n := range all {
		wait.Until(t, "each node knows the replicas", func() bool {
			return strings.Count(n.Do("CLUSTER NODES").(string), "slave ") == len(c.Replicas)
		})
	}
	agreed()
	return c
}

// self is the line of a node about itself.
func (b *Broker) self() string {
	b.t.Helper()
	for line := range strings.Lines(b.Do("CLUSTER NODES").(string)) {
		if strings.Contains(line, "myself") {
			return line
		}
	}
	b.t.Fatal("a node does not know itself")
	return ""
}

// NodeID returns the ID of a node of a cluster.
func (b *Broker) NodeID() string {
	id, _, _ := strings.Cut(b.self(), " ")
	return id
}

// URL is what a client of the cluster connects to.
func (c *Cluster) URL() string {
	return strings.Replace(c.Primaries[0].URL(), "redis:", "redis+cluster:", 1)
}

// Owner returns the index of the primary that has a key at first.
func (c *Cluster) Owner(key string) (i int) {
	slot := c.Primaries[0].Do("CLUSTER KEYSLOT " + key).(int64)
	return int(slot) * len(c.Primaries) / 16384
}
