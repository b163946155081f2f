package pubsub_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A pattern matches as users of NATS know it.
func TestPatternMatches(t *testing.T) {
	t.Parallel()
	names := []string{"room", "room.1", "room.2", "room.1.typing", "room.1.typing.now", "other.1",
		"room.", "", "*", "room.*", "lwango/x.1"}
	for _, row := range []struct{ pattern, want string }{
		{"room.*", "room.1 room.2 room. room.*"},
		{"room.>", "room.1 room.2 room.1.typing room.1.typing.now room. room.*"},
		{"room", "room"},
		{"*", "room  *"},
		{"*.1", "room.1 other.1 lwango/x.1"},
		{"*.*.typing", "room.1.typing"},
		{"*.1.>", "room.1.typing room.1.typing.now"},
		{"room.*.*.now", "room.1.typing.now"},
		{"lwango/x.*", "lwango/x.1"},
		{"room.1.typing.now.>", ""},
		{">", strings.Join(names, " ")},
	} {
		t.Run(row.pattern, func(t *testing.T) {
			var hub pubsub.Hub
			loops.Run(t, func(th *loop.Thread) {
				publish(hub.Topic("room.1"), "before")
				one := hub.Pattern(row.pattern).Subscribe(th, pubsub.Options{})
				own := hub.Pattern(row.pattern).Subscribe(th,
					pubsub.Options{Policy: pubsub.DropNewest})
				for _, name := range names {
					publish(hub.Topic(name), "x")
				}
				publish(hub.ServerTopic("x.1"), "secret")
				for _, sub := range []*pubsub.Subscription{one, own} {
					var got []string
					for m := sub.Next(); m != nil; m = sub.Next() {
						got = append(got, m.Topic)
						if string(m.Data) != "x" || sub.History() {
							t.Errorf("%s: %s", m.Topic, m.Data)
						}
					}
					if s := strings.Join(got, " "); s != row.want {
						t.Errorf("got %q, want %q", s, row.want)
					}
				}
				pubsub.Bytes(&hub)
			})
			if n, left := pubsub.Selections(&hub); n != 0 || left {
				t.Errorf("%d selections are left; in the tree: %v", n, left)
			}
			pubsub.Bytes(&hub)
		})
	}
}

// A subscription that cannot be had says so, to whoever receives or waits.
func TestRefused(t *testing.T) {
	t.Parallel()
	var hub, carried pubsub.Hub
	carried.Connect(new(script))
	group := func(o pubsub.Options) pubsub.Options { o.Group = "workers"; return o }
	loops.Run(t, func(th *loop.Thread) {
		for i, sub := range []*pubsub.Subscription{
			hub.Pattern("").Subscribe(th, pubsub.Options{}),
			hub.Pattern("a..b").Subscribe(th, pubsub.Options{}),
			hub.Pattern("a.>.b").Subscribe(th, pubsub.Options{}),
			hub.Pattern("a.*").Subscribe(th, pubsub.Options{History: 1}),
			hub.Pattern("a.*").Subscribe(th, pubsub.Options{After: "x"}),
			hub.Topic("a").Subscribe(th, pubsub.Options{History: pubsub.MaxQueue + 1}),
			hub.Topic("a").Subscribe(th, group(pubsub.Options{History: 1})),
			hub.Topic("a").Subscribe(th, group(pubsub.Options{Policy: pubsub.Disconnect})),
			carried.Pattern("a.*").Subscribe(th, pubsub.Options{}),
			carried.Topic("a").Subscribe(th, group(pubsub.Options{})),
		} {
			if sub.Err() == nil || errors.Is(sub.Err(), errors.ErrUnsupported) != (i >= 8) {
				t.Errorf("%d: %v", i, sub.Err())
			}
			if _, err := sub.Receive(-1); err != sub.Err() {
				t.Errorf("%d: Receive: %v", i, err)
			}
			if n, err := th.AwaitAny(limit, sub); n != 0 || err != nil || sub.Next() != nil ||
				sub.Dropped() != 0 || sub.History() != true {
				t.Errorf("%d: %d, %v", i, n, err)
			}
			sub.Unsubscribe()
		}
	})
	if n, _ := pubsub.Topics(&hub); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

// A publisher does not look at patterns again while none comes or goes, and a new one is heard.
func TestPatternsComeAndGo(t *testing.T) {
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		topic := hub.Topic("room.7")
		publish(topic, "a")
		one := hub.Pattern("room.*").Subscribe(th, pubsub.Options{})
		publish(topic, "b")
		two := hub.Pattern("*.7").Subscribe(th, pubsub.Options{})
		again := hub.Pattern("room.*").Subscribe(th, pubsub.Options{})
		publish(topic, "c")
		if got := rest(one) + " " + rest(two) + " " + rest(again); got != "bc c c" {
			t.Errorf("got %q", got)
		}
		one.Unsubscribe()
		two.Unsubscribe()
		publish(topic, "d")
		if got := rest(again); got != "d" {
			t.Errorf("got %q", got)
		}
		for i := range 1000 {
			hub.Pattern(fmt.Sprintf("r%d.*", i)).Subscribe(th, pubsub.Options{})
			hub.Pattern(fmt.Sprintf("*.r%d", i)).Subscribe(th, pubsub.Options{})
		}
		publish(topic, "e")
		allocs := testing.AllocsPerRun(100, func() { publish(topic, "x"); again.Next() })
		if allocs > 5 && !race.Enabled {
			t.Errorf("%v allocations for a message", allocs)
		}
	})
}

// Two topics are published to at once, and a pattern's log and theirs forget the same messages.
func TestPatternOfTopicsAtOnce(t *testing.T) {
	t.Parallel()
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		hub.Pattern("room.*").Subscribe(th, pubsub.Options{Queue: 1})
		var publishers sync.WaitGroup
		for _, name := range []string{"room.1", "room.2"} {
			topic := hub.Topic(name)
			topic.Subscribe(th, pubsub.Options{Queue: 1})
			publishers.Go(func() {
				for range 500 {
					topic.Publish(nil)
				}
			})
		}
		publishers.Wait()
		pubsub.Bytes(&hub)
	})
}
