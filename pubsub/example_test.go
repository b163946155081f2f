package pubsub_test

import (
	"fmt"

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
