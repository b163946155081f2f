package pubsub_test

import (
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A subscriber gets as much history as it has asked for, or learns how much is missing.
func TestForgotten(t *testing.T) {
	t.Parallel()
	small := pubsub.Limits{History: 4, TopicBytes: 3 * (128 + 1)}
	large := pubsub.Limits{History: pubsub.MaxQueue + 10, TopicBytes: 1 << 30}
	for _, row := range []struct {
		name      string
		limits    pubsub.Limits
		published string
		o         pubsub.Options
		got       string
		forgotten int
	}{
		{"all there is", pubsub.Limits{}, "abc", pubsub.Options{History: 9}, "abc", 0},
		{"none", pubsub.Limits{}, "abc", pubsub.Options{}, "", 0},
		{"by number", pubsub.Limits{History: 2}, "abcde", pubsub.Options{History: 4}, "de", 2},
		{"by number, all of it", pubsub.Limits{History: 2}, "abcde", pubsub.Options{History: 9}, "de", 3},
		{"in bytes", small, "abcde", pubsub.Options{History: 4}, "cde", 1},
		{"as many as there are", small, "abcde", pubsub.Options{History: 3}, "cde", 0},
		{"after what is unknown", small, "abcde", pubsub.Options{After: "x"}, "cde", 2},
		{"own queue", small, "abcde",
			pubsub.Options{History: 4, Policy: pubsub.DropNewest}, "cde", 1},
		{"very much", large, "abcde", pubsub.Options{History: pubsub.MaxQueue + 10}, "abcde", 0},
		{"nothing is kept", pubsub.Limits{History: -1}, "abc", pubsub.Options{History: 3}, "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			hub := pubsub.Hub{Limits: row.limits}
			topic := hub.Topic("room")
			publish(topic, row.published)
			loops.Run(t, func(th *loop.Thread) {
				sub := topic.Subscribe(th, row.o)
				if got := rest(sub); got != row.got || sub.Forgotten() != row.forgotten ||
					sub.Dropped() > 0 || sub.Err() != nil {
					t.Errorf("%q, %d forgotten, %d dropped, %v", got, sub.Forgotten(),
						sub.Dropped(), sub.Err())
				}
			})
		})
	}
	// Above MaxQueue all of it comes.
	hub := pubsub.Hub{Limits: pubsub.Limits{History: pubsub.MaxQueue + 10, TopicBytes: 1 << 30}}
	topic := hub.Topic("room")
	for range pubsub.MaxQueue + 20 {
		topic.Publish(nil)
	}
	loops.Run(t, func(th *loop.Thread) {
		sub := topic.Subscribe(th, pubsub.Options{History: pubsub.MaxQueue + 10})
		n := 0
		for sub.Next() != nil {
			n++
		}
		if n != pubsub.MaxQueue+10 || sub.Dropped() > 0 || sub.Forgotten() > 0 {
			t.Errorf("%d messages, %d dropped, %d forgotten", n, sub.Dropped(), sub.Forgotten())
		}
	})
}
