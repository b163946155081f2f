package pubsub_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Whoever makes up names makes the hub forget, and not grow.
func TestIdleTopicsAreBounded(t *testing.T) {
	t.Run("number", func(t *testing.T) {
		hub := pubsub.Hub{Limits: pubsub.Limits{IdleTopics: 100}}
		kept := hub.Topic("kept")
		for i := range 10000 {
			publish(hub.Topic(fmt.Sprint(i)), "x")
			if i%50 == 0 {
				publish(kept, "y")
			}
		}
		if n, _ := pubsub.Topics(&hub); n != 100 {
			t.Errorf("%d topics are remembered", n)
		}
		for name, want := range map[string]int{"9999": 1, "9910": 1, "kept": 64, "9800": 0} {
			if _, held, _ := pubsub.Subscribers(&hub, name); held != want {
				t.Errorf("%s: %d messages, want %d", name, held, want)
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		hub := pubsub.Hub{Limits: pubsub.Limits{IdleBytes: 1 << 20}}
		for i := range 1000 {
			for range 3 {
				hub.Topic(fmt.Sprint(i)).Publish(make([]byte, 4<<10))
			}
		}
		n, bytes := pubsub.Topics(&hub)
		if bytes > 1<<20 || bytes < 1<<20-20<<10 || n < 60 {
			t.Errorf("%d topics of %d bytes are remembered", n, bytes)
		}
	})
	t.Run("no history", func(t *testing.T) {
		hub := pubsub.Hub{Limits: pubsub.Limits{History: -1}}
		topic := hub.Topic("room")
		publish(topic, "xyz")
		loops.Run(t, func(th *loop.Thread) {
			sub := topic.Subscribe(th, pubsub.Options{History: 10})
			publish(topic, "abc") // to the topic that was forgotten, and is there again
			if got := rest(sub); got != "abc" {
				t.Errorf("%q", got)
			}
		})
		if n, _ := pubsub.Topics(&hub); n != 0 {
			t.Errorf("%d topics are remembered", n)
		}
	})
}

// A Topic works on when the hub has forgotten what it knew, and had it again.
func TestTopicIsForgottenAndComesBack(t *testing.T) {
	hub := pubsub.Hub{Limits: pubsub.Limits{IdleTopics: 1}}
	room, other := hub.Topic("room"), hub.Topic("other")
	publish(room, "a")
	publish(other, "x") // room is forgotten
	loops.Run(t, func(th *loop.Thread) {
		sub := hub.Topic("room").Subscribe(th, pubsub.Options{History: 10})
		publish(room, "b")
		publish(hub.Topic("room"), "c")
		if got := rest(sub); got != "bc" {
			t.Errorf("%q", got)
		}
		long := room.Subscribe(th, pubsub.Options{Queue: 1000})
		publish(room, strings.Repeat("z", 1000))
		if got := rest(long); len(got) != 1000 {
			t.Errorf("%d messages", len(got))
		}
	})
	if n, held, room := pubsub.Subscribers(&hub, "room"); n != 0 || held != 64 || room != 64 {
		t.Errorf("%d subscribers, %d messages, room for %d", n, held, room)
	}
}

func TestIDs(t *testing.T) {
	var one, two pubsub.Hub
	seen := map[string]bool{}
	for range 1000 {
		for _, hub := range []*pubsub.Hub{&one, &two} {
			m := hub.Topic("room").Publish(nil)
			if origin, _, _ := strings.Cut(m.ID, "-"); seen[m.ID] || origin != hub.Origin() {
				t.Fatal(m.ID)
			}
			seen[m.ID] = true
		}
	}
}

// The data are the caller's again when Publish has returned.
func TestPublishCopies(t *testing.T) {
	var hub pubsub.Hub
	data := []byte("before")
	m := hub.Topic("room").Publish(data)
	copy(data, "after!")
	if string(m.Data) != "before" {
		t.Errorf("%q", m.Data)
	}
}

type frame struct{ text string }

func TestSharedIsMadeOnce(t *testing.T) {
	var hub pubsub.Hub
	var made atomic.Int32
	framed := pubsub.Shared(func(data []byte) *frame {
		made.Add(1)
		runtime.Gosched()
		return &frame{"[" + string(data) + "]"}
	})
	other := pubsub.Shared(func(data []byte) *frame { return &frame{"(" + string(data) + ")"} })
	handoffs(t, 3, func(t *testing.T, ls *loops.Loops) {
		made.Store(0)
		topic := hub.Topic("room")
		const subscribers, messages = 60, 20
		var frames [subscribers][messages]*frame
		subscribed, done := make(chan struct{}, subscribers), make(chan struct{}, subscribers)
		for i := range subscribers {
			ls.Go(i, func(th *loop.Thread) {
				sub := topic.Subscribe(th, pubsub.Options{})
				subscribed <- struct{}{}
				for n := range messages {
					m, err := sub.Receive(-1)
					if err != nil {
						t.Error(err)
						break
					}
					if frames[i][n] = framed(m); i%2 == 0 && other(m).text != "(x)" {
						t.Error(other(m).text)
					}
				}
				done <- struct{}{}
			})
		}
		for range subscribers {
			<-subscribed
		}
		publish(topic, strings.Repeat("x", messages))
		for range subscribers {
			<-done
		}
		for i := range frames {
			for n, f := range frames[i] {
				if f != frames[0][n] || f.text != "[x]" {
					t.Fatal("not shared")
				}
			}
		}
		if made.Load() != messages {
			t.Errorf("made %d times", made.Load())
		}
	})

	// One that panics is tried again by the next, which does not wait for it.
	first := true
	flaky := pubsub.Shared(func([]byte) int {
		if first {
			first = false
			panic("on purpose")
		}
		return 7
	})
	m := hub.Topic("room").Publish(nil)
	func() {
		defer func() { _ = recover() }()
		flaky(m)
	}()
	if flaky(m) != 7 {
		t.Error("not made")
	}
}

// TestOfServer: no name of a program's leads to a topic of the server's.
func TestOfServer(t *testing.T) {
	var hub pubsub.Hub
	loops.Run(t, func(th *loop.Thread) {
		own := hub.ServerTopic("x").Subscribe(th, pubsub.Options{})
		for _, name := range []string{"x", "lwango/x", "lwango//x", "/x"} {
			sub := hub.Topic(name).Subscribe(th, pubsub.Options{})
			publish(hub.Topic(name), "a")
			publish(hub.ServerTopic("x"), "b")
			if got := rest(sub); got != "a" {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := rest(own); got != "bbbb" {
			t.Errorf("%q", got)
		}
	})
}
