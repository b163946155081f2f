package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Who comes is told to all in few notices, and who is there to newcomers in few lists, however many
// come at once: 2,000 newcomers do not cost 2,000 lists.
func TestManyJoin(t *testing.T) {
	const many, together = 2000, 50
	loops.Run(t, func(th *loop.Thread) {
		watch := people("crowd").Subscribe(th, pubsub.Options{Queue: 2 * many})
		began, frames := time.Now(), 0
		lists := make(map[*news]bool)
		var last *pubsub.Subscription
		for i := range many {
			if err := enter("crowd", fmt.Sprintf("Person %04d", i)); err != nil {
				t.Error(err)
				return
			}
			last = people("crowd").Subscribe(th, pubsub.Options{})
			lists[newsOf(last.Next())] = true
			if i%together == 0 {
				_ = th.Sleep(time.Millisecond)
			}
		}
		for count := 0; count < many; {
			m, err := watch.Receive(patience)
			if err != nil {
				t.Error(err)
				return
			}
			n := newsOf(m)
			count = n.Count
			frames += len(n.frames)
		}
		took := time.Since(began)
		if most := 3 + int(took/(5*time.Millisecond)); frames > most || len(lists) > most {
			t.Errorf("%d lists, %d notices in %v, at most %d are allowed", len(lists), frames, took,
				most)
		}
		t.Logf("%d lists, %d notices in %v", len(lists), frames, took)
		for i := range many {
			exit("crowd", fmt.Sprintf("Person %04d", i))
		}
		if len(rooms.open) > 0 {
			t.Errorf("open are still: %v", rooms.open)
		}
	})
}

func TestNews(t *testing.T) {
	for text, want := range map[string]int{
		`{"topic":"chat r","list":true,"joined":["Ann","Bob"],"count":2}`: 1,
		`{"topic":"chat r","joined":["Ann"],"left":["Cat"],"count":2}`:    2,
		`{"topic":"chat r","left":["Cat"],"count":2,"stale":"cut off"}`:   1,
		`{"topic":"chat r","count":2}`:                                    0,
		`{"type":"typing","room":"r","name":"Ann"}`:                       1,
		`what nobody understands`:                                         0,
	} {
		n := newsOf(&pubsub.Message{Data: []byte(text)})
		if len(n.frames) != want || n.has("Bob") != n.List || n.has("Ca") {
			t.Errorf("%s: %+v", text, n)
		}
	}
}
