package pubsub_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/leaktest"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestHistoryThenLive(t *testing.T) {
	var hub pubsub.Hub
	hub.Topic("room").Publish([]byte("1"))
	second := hub.Topic("room").Publish([]byte("2"))
	hub.Topic("room").Publish([]byte("3"))
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		o    pubsub.Options
		want string
	}{
		{"none", pubsub.Options{}, "45"},
		{"last value", pubsub.Options{History: 1}, "345"},
		{"all", pubsub.Options{History: 100}, "12345"},
		{"after", pubsub.Options{After: second.ID}, "345"},
		{"after what is not known", pubsub.Options{After: "x"}, "12345"},
		{"own queue", pubsub.Options{History: 2, Policy: pubsub.DropNewest}, "2345"},
	} {
		l.Go(func(th *loop.Thread) {
			sub := hub.Topic("room").Subscribe(th, row.o)
			got := ""
			for len(got) < len(row.want) {
				m, err := sub.Receive(10 * time.Second)
				if err != nil {
					t.Errorf("%s: %v", row.name, err)
					return
				}
				got += string(m.Data)
			}
			if got != row.want || sub.Next() != nil || sub.Dropped() != 0 {
				t.Errorf("%s: %q, dropped %d", row.name, got, sub.Dropped())
			}
		})
	}
	l.Go(func(th *loop.Thread) {
		th.Yield()
		go hub.Topic("room").Publish([]byte("4"))
		sub := hub.Topic("room").Subscribe(th, pubsub.Options{})
		_, _ = sub.Receive(-1)
		hub.Topic("room").Publish([]byte("5"))
	})
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
}
