package pubsub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// remaining reads what Remaining gives.
func remaining(s *pubsub.Subscription) string {
	var b strings.Builder
	for m := s.Remaining(); m != nil; m = s.Remaining() {
		b.Write(m.Data)
	}
	return b.String()
}

// What is published after a subscriber has first asked for what remains is for no subscriber of its
// loop that asks so, whatever its policy.
func TestRemaining(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		o                    pubsub.Options
		before, during, want string
	}{
		{pubsub.Options{}, "ab", "xyz", "ab"},
		{pubsub.Options{}, "", "xyz", ""},
		{pubsub.Options{Queue: 3}, "abcde", "x", "cde"},
		{pubsub.Options{Queue: 2}, "ab", "vwxyz", "ab"},
		{pubsub.Options{Queue: 2, Policy: pubsub.DropNewest}, "abc", "x", "ab"},
		{pubsub.Options{Queue: 9, Policy: pubsub.DropNewest}, "ab", "xyz", "ab"},
		{pubsub.Options{Queue: 2, Policy: pubsub.Disconnect}, "ab", "xyz", "ab"},
		{pubsub.Options{Queue: 2, Policy: pubsub.Disconnect}, "", "xyz", ""},
		{pubsub.Options{Queue: 2, Policy: pubsub.Disconnect}, "abc", "x", ""},
		{pubsub.Options{Group: "g"}, "ab", "xyz", "abxyz"},
	} {
		t.Run(fmt.Sprintf("%+v", row.o), func(t *testing.T) {
			loops.Run(t, func(th *loop.Thread) {
				var hub pubsub.Hub
				room := hub.Topic("room")
				first := room.Subscribe(th, pubsub.Options{Queue: 100})
				sub := room.Subscribe(th, row.o)
				publish(room, row.before)
				if got := remaining(first); got != row.before {
					t.Errorf("the first got %q", got)
				}
				publish(room, row.during)
				if got := remaining(sub); got != row.want || sub.Err() != nil {
					t.Errorf("got %q, %v; want %q", got, sub.Err(), row.want)
				}
				if got := remaining(first); got != "" {
					t.Errorf("then the first got %q", got)
				}
				if got := rest(first); got != row.during {
					t.Errorf("there was %q", got)
				}
			})
		})
	}
}
