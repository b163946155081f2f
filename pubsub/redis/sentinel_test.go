package redis_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/pubsub"
)

// The primary is killed, or stands still, and Sentinel promotes the replica. The first sentinel of
// the URL is not there. Nothing is lost, because a message counts as sent when the replica has it.
func TestSentinel(t *testing.T) {
	for _, row := range []struct {
		why string
		do  func(*broker.Broker)
	}{
		{"killed", (*broker.Broker).Kill},
		{"stands still", func(b *broker.Broker) { b.Signal(syscall.SIGSTOP) }},
	} {
		t.Run(row.why, func(t *testing.T) {
			ci.Only(t, "waits until a replica has taken over")
			first := broker.Start(t)
			replicas := []*broker.Broker{broker.Start(t), broker.Start(t)} // one is that of the other
			for _, r := range replicas {
				r.Replicate(first)
			}
			sentinel := broker.StartSentinel(t, first)
			for _, r := range replicas {
				sentinel.AwaitReplica(r)
			}
			ln := must.Listen(t)
			url := fmt.Sprintf("redis+sentinel://%s?master_name=main&replicas=1&addr=127.0.0.1:%d",
				ln.Addr(), sentinel.Port)
			ln.Close()
			one, two := startNode(t, url), startNode(t, url)
			at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
			stop := one.Traffic("room", "a")
			at.Expect(numbered("a", 0, 100)...)
			row.do(first)
			two.Status.Expect("local", "carried")
			at.Expect(numbered("a", 100, 1000)...)
			n := stop()
			at.Expect(numbered("a", 1000, n)...)
			one.Acknowledged()
			at.Quiet()
			if n := one.engine.Lost(); n > 0 {
				t.Errorf("lost %d", n)
			}
		})
	}
}

// TestPresenceBySentinel: who is there, while the primary is killed and Sentinel promotes a
// replica.
func TestPresenceBySentinel(t *testing.T) {
	ci.Only(t, "waits until a replica has taken over")
	first := broker.Start(t)
	replicas := []*broker.Broker{broker.Start(t), broker.Start(t)}
	for _, r := range replicas {
		r.Replicate(first)
	}
	sentinel := broker.StartSentinel(t, first)
	for _, r := range replicas {
		sentinel.AwaitReplica(r)
	}
	url := fmt.Sprintf("redis+sentinel://127.0.0.1:%d?master_name=main&replicas=1", sentinel.Port)
	rooms.Presence(t, startNode(t, url).Node, url, first.Kill)
}

// As long as too few replicas have a message, it counts as not sent.
func TestReplicasAreMissing(t *testing.T) {
	t.Parallel()
	first, second := broker.Start(t), broker.Start(t)
	one := startNode(t, first.URL()+"?replicas=1")
	publish(one.Hub.Topic("room"), "a")
	one.Status.Expect("local")
	if n := one.engine.Pending(); n != 1 {
		t.Errorf("%d wait", n)
	}
	second.Replicate(first)
	one.Status.Expect("carried")
	one.Acknowledged()
	if n := first.Do("XLEN lwango:topic:room").(int64); n != 1 {
		t.Errorf("sent %d times", n)
	}
}
