package pubsub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// A thread waits for a message beside other things. In a handler of a server, the hub is
// lwango.Topics() and the thread is the request's.
func Example() {
	var hub pubsub.Hub
	l, err := loop.New(loop.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	hub.Topic("weather").Publish([]byte("rain"))
	l.Go(func(t *loop.Thread) {
		sub := hub.Topic("weather").Subscribe(t, pubsub.Options{History: 1})
		news, hour := hub.Topic("news").Subscribe(t, pubsub.Options{}), t.After(3600e9)
		for {
			switch i, err := t.AwaitAny(-1, sub, news, hour); {
			case i == 0 && err == nil:
				for m := sub.Next(); m != nil; m = sub.Next() {
					fmt.Println("weather:", string(m.Data))
				}
				go hub.Topic("news").Publish([]byte("no news")) // from any goroutine
			case i == 1 && err == nil:
				fmt.Println("news:", string(news.Next().Data))
				return
			default:
				return
			}
		}
	})
	if err := l.Run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// weather: rain
	// news: no news
}

// runThread runs f as a thread on a loop of its own.
func runThread(f func(t *loop.Thread)) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l.Go(f)
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
}

// A thread that waits for messages only receives one after the other.
func ExampleSubscription_Receive() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		sub := hub.Topic("weather").Subscribe(t, pubsub.Options{})
		go func() {
			hub.Topic("weather").Publish([]byte("rain"))
			hub.Topic("weather").Publish([]byte("sun"))
		}()
		for range 2 {
			m, err := sub.Receive(time.Minute)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(string(m.Data))
		}
		_, err := sub.Receive(0)
		fmt.Println(err)
	})
	// Output:
	// rain
	// sun
	// i/o timeout
}

// A subscriber that comes back asks for what it has missed, by the ID of the last message it has.
func ExampleTopic_Subscribe() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		room := hub.Topic("room")
		room.Publish([]byte("one"))
		last := room.Publish([]byte("two"))
		room.Publish([]byte("three"))

		sub := room.Subscribe(t, pubsub.Options{After: last.ID})
		room.Publish([]byte("four"))
		for m := sub.Next(); m != nil; m = sub.Next() {
			fmt.Println(string(m.Data), sub.History())
		}
	})
	// Output:
	// three true
	// four false
}

// The policy says what a subscriber misses if it is behind by more than its queue.
func ExamplePolicy() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		room := hub.Topic("room")
		news := room.Subscribe(t, pubsub.Options{Queue: 2, Policy: pubsub.DropOldest})
		oldest := room.Subscribe(t, pubsub.Options{Queue: 2, Policy: pubsub.DropNewest})
		all := room.Subscribe(t, pubsub.Options{Queue: 2, Policy: pubsub.Disconnect})
		for _, text := range []string{"one", "two", "three"} {
			room.Publish([]byte(text))
		}
		for _, sub := range []*pubsub.Subscription{news, oldest, all} {
			for m := sub.Next(); m != nil; m = sub.Next() {
				fmt.Print(string(m.Data), " ")
			}
			fmt.Println("dropped", sub.Dropped(), sub.Err())
		}
	})
	// Output:
	// two three dropped 1 <nil>
	// one two dropped 1 <nil>
	// dropped 0 subscriber is too far behind
}

// shout is made once for each message, for all subscribers on all loops.
var shout = pubsub.Shared(func(data []byte) string {
	fmt.Println("made of", string(data))
	return string(bytes.ToUpper(data))
})

// What is made of a message, such as a frame, is made once for all subscribers.
func ExampleShared() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		room := hub.Topic("room")
		one, two := room.Subscribe(t, pubsub.Options{}), room.Subscribe(t, pubsub.Options{})
		room.Publish([]byte("hello"))
		fmt.Println(shout(one.Next()))
		fmt.Println(shout(two.Next()))
	})
	// Output:
	// made of hello
	// HELLO
	// HELLO
}

// A pattern follows all topics whose names match.
func ExampleHub_Pattern() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		rooms := hub.Pattern("room.*").Subscribe(t, pubsub.Options{})
		all := hub.Pattern("room.>").Subscribe(t, pubsub.Options{})
		hub.Topic("room.garden").Publish([]byte("hello"))
		hub.Topic("room.garden.typing").Publish([]byte("Ann"))
		hub.Topic("house").Publish([]byte("no room"))
		for _, sub := range []*pubsub.Subscription{rooms, all} {
			for m := sub.Next(); m != nil; m = sub.Next() {
				fmt.Println(m.Topic, string(m.Data))
			}
		}
	})
	// Output:
	// room.garden hello
	// room.garden hello
	// room.garden.typing Ann
}

// Each message is for one member of a queue group.
func ExampleOptions_group() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		jobs := hub.Topic("jobs")
		one := jobs.Subscribe(t, pubsub.Options{Group: "workers"})
		two := jobs.Subscribe(t, pubsub.Options{Group: "workers"})
		jobs.Publish([]byte("first"))
		jobs.Publish([]byte("second"))
		jobs.Publish([]byte("third"))
		fmt.Println(string(one.Next().Data))
		fmt.Println(string(two.Next().Data))
		one.Unsubscribe() // what it has not taken is for the others
		fmt.Println(string(two.Next().Data))
	})
	// Output:
	// first
	// second
	// third
}

// Who is in a room gets a list first, and then what changes.
func ExamplePresence() {
	runThread(func(t *loop.Thread) {
		var hub pubsub.Hub
		people := hub.Topic("garden").Presence()
		people.Join("Ann")
		people.Join("Bob")
		sub := people.Subscribe(t, pubsub.Options{})
		for range 2 {
			m, _ := sub.Receive(time.Minute)
			fmt.Println(string(m.Data))
		}
		people.Leave("Bob")
		m, _ := sub.Receive(time.Minute)
		var c pubsub.Change
		_ = json.Unmarshal(m.Data, &c)
		fmt.Println(c.Left, "left,", c.Count, "here")
	})
	// Output:
	// {"topic":"garden","list":true,"count":0}
	// {"topic":"garden","joined":["Ann","Bob"],"count":2}
	// [Bob] left, 1 here
}
