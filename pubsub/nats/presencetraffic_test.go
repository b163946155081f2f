package nats_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// counting returns the address of a relay to a broker, and how many bytes have gone through it in
// both directions.
func counting(t *testing.T, to string) (url string, bytes *atomic.Int64) {
	ln := must.Listen(t)
	bytes = new(atomic.Int64)
	pass := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		for b := make([]byte, 32<<10); ; {
			n, err := from.Read(b)
			bytes.Add(int64(n))
			if _, e := to.Write(b[:n]); e != nil || err != nil {
				return
			}
		}
	}
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			up, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go pass(c, up)
			go pass(up, c)
		}
	}()
	return "nats://" + ln.Addr().String(), bytes
}

// Three processes have 1,000 rooms of 10 members together. One more who joins costs the broker 2 kB
// at most, what it receives and sends for all processes together.
func TestPresenceTraffic(t *testing.T) {
	const many, members, joins = 1000, 10, 100
	url, traffic := counting(t, startBroker(t).addr())
	nodes := []*rooms.Node{startNode(t, url), startNode(t, url), startNode(t, url)}
	list := func(n *rooms.Node, room int) pubsub.Change {
		return n.Hub.Topic(fmt.Sprint("room ", room)).Presence().List()
	}
	for i := range many * members {
		topic := nodes[i%len(nodes)].Hub.Topic(fmt.Sprint("room ", i/members))
		topic.Presence().Join(fmt.Sprint("Person ", i))
	}
	for _, n := range nodes {
		wait.Until(t, "all are there", func() bool {
			for room := range many {
				if c := list(n, room); c.Count != members || c.Stale != "" { // all lists were sent
					return false
				}
			}
			return true
		})
	}
	before := traffic.Load()
	for i := range joins {
		topic := nodes[i%len(nodes)].Hub.Topic(fmt.Sprint("room ", i))
		topic.Presence().Join(fmt.Sprint("Newcomer ", i))
		for _, n := range nodes {
			wait.Until(t, "a newcomer", func() bool { return list(n, i).Count == members+1 })
		}
	}
	each := (traffic.Load() - before) / joins
	if t.Logf("%d bytes a join", each); each > 2048 {
		t.Errorf("a join costs %d bytes", each)
	}
}
