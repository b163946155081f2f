package pubsub_test

import (
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// What Matches says is what a hub without an engine does.
func TestMatches(t *testing.T) {
	var patterns, topics []string
	words := []string{"a", "b", "*", ">", ""}
	for _, w1 := range words {
		topics = append(topics, w1)
		for _, w2 := range words {
			topics = append(topics, w1+"."+w2)
			for _, w3 := range words {
				topics = append(topics, w1+"."+w2+"."+w3)
			}
		}
	}
	loops.Run(t, func(th *loop.Thread) {
		for _, pattern := range topics {
			var hub pubsub.Hub
			sub := hub.Pattern(pattern).Subscribe(th, pubsub.Options{Queue: 1000})
			if sub.Err() != nil {
				continue // it is no pattern
			}
			patterns = append(patterns, pattern)
			for _, topic := range topics {
				hub.Topic(topic).Publish(nil)
				s := pubsub.Selection{Name: pattern, Pattern: true}
				if got, want := s.Matches(topic), sub.Next() != nil; got != want {
					t.Errorf("%q for %q: %v, want %v", pattern, topic, got, want)
				}
				if exact := (pubsub.Selection{Name: pattern}); exact.Matches(topic) != (topic == pattern) {
					t.Errorf("%q for %q", pattern, topic)
				}
			}
			sub.Unsubscribe()
		}
	})
	if len(patterns) < 40 {
		t.Errorf("%d patterns", len(patterns))
	}
}
