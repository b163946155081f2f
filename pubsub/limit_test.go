package pubsub_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Whoever fills topics with subscribers that do not read costs those their messages, and the server
// no memory.
func TestHubIsBounded(t *testing.T) {
	const (
		limit    = 1 << 20
		topics   = 30
		messages = 40
		size     = 4 << 10 // 5 MB in all
	)
	hub := pubsub.Hub{Limits: pubsub.Limits{Bytes: limit}}
	loops.Run(t, func(th *loop.Thread) {
		small := hub.Topic("small")
		publish(hub.Topic("quiet"), "xyz")
		reader := small.Subscribe(th, pubsub.Options{})
		publish(small, "abc")
		var subs []*pubsub.Subscription
		policies := []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest, pubsub.Disconnect}
		for i := range topics {
			subs = append(subs, hub.Topic(fmt.Sprint(i)).Subscribe(th,
				pubsub.Options{Policy: policies[i%3]}))
		}
		for n := range messages {
			for i := range topics {
				hub.Topic(fmt.Sprint(i)).Publish(append(make([]byte, size-1), byte(n)))
				if bytes := pubsub.Bytes(&hub); bytes > limit {
					t.Fatalf("%d bytes are held", bytes)
				}
			}
		}
		if bytes := pubsub.Bytes(&hub); bytes < limit*3/4 {
			t.Errorf("only %d bytes are held", bytes)
		}
		for i, sub := range subs {
			var got []byte
			for m := sub.Next(); m != nil; m = sub.Next() {
				got = append(got, m.Data[size-1])
			}
			lost := messages - len(got)
			switch policies[i%3] {
			case pubsub.Disconnect:
				if len(got) > 0 || !errors.Is(sub.Err(), pubsub.ErrLagged) {
					t.Errorf("Disconnect: %d messages, %v", len(got), sub.Err())
				}
				continue
			case pubsub.DropOldest:
				for n := range got {
					if int(got[n]) != lost+n {
						t.Fatalf("DropOldest: got %d", got)
					}
				}
			}
			if sub.Dropped() != lost || lost == 0 || sub.Err() != nil {
				t.Errorf("policy %d: %d of %d messages, and dropped %d, %v", policies[i%3],
					len(got), messages, sub.Dropped(), sub.Err())
			}
		}
		if got := rest(reader); got != "abc" || reader.Dropped() > 0 {
			t.Errorf("the small topic's reader got %q, and lost %d", got, reader.Dropped())
		}
		if got := rest(hub.Topic("quiet").Subscribe(th, pubsub.Options{History: 9})); got != "xyz" {
			t.Errorf("history of a quiet topic: %q", got)
		}
		for _, sub := range subs {
			sub.Unsubscribe()
		}
		pubsub.Bytes(&hub)
	})
}

// A subscriber whose only message did not fit goes on with the next, and is not woken for nothing
// for ever.
func TestMessageLargerThanTheHub(t *testing.T) {
	hub := pubsub.Hub{Limits: pubsub.Limits{Bytes: 1000}}
	room := hub.Topic("room")
	loops.Run(t, func(th *loop.Thread) {
		for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest} {
			sub := room.Subscribe(th, pubsub.Options{Policy: policy})
			room.Publish(make([]byte, 2000))
			if bytes := pubsub.Bytes(&hub); bytes > 0 {
				t.Errorf("%d bytes are held", bytes)
			}
			if m := sub.Next(); m != nil || sub.Dropped() != 1 || sub.Ready() {
				t.Errorf("got a message: %v, dropped %d, ready %v", m != nil, sub.Dropped(),
					sub.Ready())
			}
			publish(room, "a")
			if got := rest(sub); got != "a" || sub.Dropped() != 1 {
				t.Errorf("got %q, dropped %d", got, sub.Dropped())
			}
			sub.Unsubscribe()
		}
	})
}

// The limit can change while the hub is in use, from any goroutine, and idle topics give way as
// others do.
func TestLimitBytes(t *testing.T) {
	var hub pubsub.Hub
	for i := range 100 {
		hub.Topic(fmt.Sprint(i)).Publish(make([]byte, 10000))
	}
	if bytes := pubsub.Bytes(&hub); bytes < 1000000 {
		t.Fatalf("%d bytes are held", bytes)
	}
	hub.LimitBytes(200000)
	if bytes := pubsub.Bytes(&hub); bytes > 200000 || bytes < 100000 {
		t.Errorf("%d bytes are held", bytes)
	}
	pubsub.Topics(&hub) // counts
	hub.LimitBytes(0)
	var publishing sync.WaitGroup
	loops.Run(t, func(th *loop.Thread) {
		for i := range 8 {
			hub.Topic(fmt.Sprint(i)).Subscribe(th,
				pubsub.Options{Policy: pubsub.Policy(i % 3), Queue: 1000})
		}
		for i := range 4 {
			publishing.Go(func() {
				for n := range 3000 {
					hub.Topic(fmt.Sprint((n + i) % 16)).Publish(make([]byte, 1000))
					if n%500 == 0 {
						hub.LimitBytes(50000 * (1 + i))
					}
				}
			})
		}
		publishing.Wait()
		hub.LimitBytes(50000)
		if bytes := pubsub.Bytes(&hub); bytes > 50000 || bytes < 30000 {
			t.Errorf("%d bytes are held", bytes)
		}
		pubsub.Topics(&hub)
	})
	if bytes := pubsub.Bytes(&hub); bytes > 50000 {
		t.Errorf("%d bytes are held", bytes)
	}
}

// A negative limit is none, as for the history.
func TestNoLimitOfBytes(t *testing.T) {
	hub := pubsub.Hub{Limits: pubsub.Limits{Bytes: -1}}
	publish(hub.Topic("a"), "abc")
	hub.LimitBytes(-5)
	publish(hub.Topic("b"), "abc")
	if pubsub.Bytes(&hub) == 0 {
		t.Error("nothing is held")
	}
}
