package nats_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
	"github.com/nats-io/nats.go/jetstream"
)

// The server that leads the stream fails while both speak, and another one leads.
func TestLeaderFails(t *testing.T) {
	ci.Only(t, "starts a cluster, and waits until it has another leader")
	for _, row := range []struct {
		why string
		do  func(*broker)
	}{
		{"killed", (*broker).kill},
		{"stands still", func(b *broker) { b.signal(syscall.SIGSTOP) }},
	} {
		t.Run(row.why, func(t *testing.T) {
			all := startCluster(t)
			url := urlOf(all, "replicas=3")
			one, two := startNode(t, url), startNode(t, url)
			at1, at2 := one.Follow(one.Hub.Topic("room"), pubsub.Options{}),
				two.Follow(two.Hub.Topic("room"), pubsub.Options{})
			stop1, stop2 := one.Traffic("room", "a"), two.Traffic("room", "b")
			got := at2.Collect(400)
			wait.Until(t, "all are carried", func() bool { return one.Hub.Carried() && two.Hub.Carried() })
			// A process notices after seconds that its server stands still, on a busy machine after
			// many, and shall find in the stream what the other one has published meanwhile.
			js := must.Get(jetstream.New(all[0].client()))(t)
			wide := nats.Config("lwango", 3)
			wide.MaxMsgsPerSubject = -1
			ctx, cancel := context.WithTimeout(t.Context(), rooms.Limit)
			defer cancel()
			must.Get(js.UpdateStream(ctx, wide))(t)
			var info struct {
				Cluster struct{ Leader string }
			}
			ask(t, all[0].client(), "STREAM.INFO.lwango", nil, &info)
			var leader int
			if _, err := fmt.Sscanf(info.Cluster.Leader, "server%d", &leader); err != nil {
				t.Fatalf("leader %q", info.Cluster.Leader)
			}
			row.do(all[leader])
			got = append(got, at2.Collect(2000)...)
			wait.Until(t, "all is sent", func() bool {
				return one.Engine.Pending() < 100 && two.Engine.Pending() < 100 &&
					one.Hub.Carried() && two.Hub.Carried()
			})
			n, m := stop1(), stop2()
			one.Acknowledged()
			two.Acknowledged()
			got = append(got, at2.Collect(n+m-len(got))...)
			for _, texts := range [][]string{got, at1.Collect(n + m)} {
				checkOrder(t, texts, map[string][2]int{"a": {0, n}, "b": {0, m}})
			}
			at1.Quiet()
			at2.Quiet()
			three := startNode(t, url) // finds the cluster, whichever server is away
			at3 := three.Follow(three.Hub.Topic("room"), pubsub.Options{History: 1})
			if got := at3.Next(); got != fmt.Sprint("a", n-1) && got != fmt.Sprint("b", m-1) {
				t.Errorf("the last is %s", got)
			}
		})
	}
}
