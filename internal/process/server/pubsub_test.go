package server_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/pubsub"
)

// Two servers of one broker: a request to one waits for what is published by a request to the
// other. What a handler publishes at the very end, in the grace period, still goes out.
func TestTopicsOfTwoServers(t *testing.T) {
	broker := broker.Start(t)
	leak.Goroutines(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	start := func(topics *pubsub.Hub, grace time.Duration,
		subscribed chan struct{}) *running {
		s := source()
		s.Topics = topics
		s.Routes = []handlers.Route{{Prefix: "/",
			Handler: func(req *conn.Request, resp *conn.Response) int {
				room := topics.Topic(req.Path())
				sub := room.Subscribe(req.Thread, pubsub.Options{})
				subscribed <- struct{}{}
				req.Defer(func() { room.Publish([]byte("gone")) })
				m, err := sub.Receive(20 * time.Second)
				if err != nil {
					return 500
				}
				resp.SetBody(m.Data)
				return 200
			}}}
		return serve(t, s,
			fmt.Sprintf("threads = 2\ngrace = %q\n[pubsub]\nurl = %q\n", grace, broker.URL()))
	}
	var hubs [2]pubsub.Hub
	subscribed := make(chan struct{}, 2)
	one := start(&hubs[0], 20*time.Second, subscribed)
	two := start(&hubs[1], 10*time.Millisecond, subscribed)

	fetching := func(room string) <-chan string {
		body := make(chan string, 1)
		go func() {
			defer close(body)
			body <- fetch(t, one.at+room)
		}()
		<-subscribed
		return body
	}
	got := fetching("/first")
	hubs[1].Topic("/first/").Publish([]byte("hello"))
	if body := <-got; body != "hello" {
		t.Errorf("%q", body)
	}

	// A handler of two waits when it is stopped, and is killed. One hears its last word.
	// That is in another room: one, which follows the first anew, could take the hello of the same
	// millisecond for news.
	got = fetching("/last")
	c := must.Dial(t, "tcp", two.at)
	fmt.Fprint(c, "GET /last/ HTTP/1.1\r\nHost: x\r\n\r\n")
	<-subscribed
	two.end()
	if body := <-got; !strings.Contains(body, "gone") {
		t.Errorf("%q", body)
	}
	one.end()
}

// What topics may hold is the configuration's, and the next one's from a reload on.
func TestTopicsAreLimited(t *testing.T) {
	leak.Goroutines(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const topics = 200 // of 16 KiB each
	var hub pubsub.Hub
	s := source()
	s.Topics = &hub
	s.Routes = []handlers.Route{{Prefix: "/",
		Handler: func(req *conn.Request, resp *conn.Response) int {
			for i := range topics {
				hub.Topic(fmt.Sprint(i)).Publish(make([]byte, 16<<10))
			}
			remembered := 0
			for i := range topics {
				sub := hub.Topic(fmt.Sprint(i)).Subscribe(req.Thread, pubsub.Options{History: 1})
				if sub.Next() != nil {
					remembered++
				}
				sub.Unsubscribe()
			}
			fmt.Fprint(resp, remembered)
			return 200
		}}}
	srv := serve(t, s, "[pubsub]\nmax_bytes = \"1MiB\"\n")
	remembered := func(from, to int) {
		t.Helper()
		var n int
		if _, err := fmt.Sscan(fetch(t, srv.at), &n); err != nil || n < from || n > to {
			t.Errorf("%d topics are remembered, %v; want %d to %d", n, err, from, to)
		}
	}
	remembered(50, 63)
	srv.reload("[pubsub]\nmax_bytes = \"2MiB\"\n")
	remembered(100, 127)
	srv.reload("")
	remembered(topics, topics)
}
