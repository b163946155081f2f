package server_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/pubsub"
)

// Two servers of one broker: a request to one waits for what is published by a request to the
// other. What a handler publishes at the very end, in the grace period, still goes out.
func TestTopicsOfTwoServers(t *testing.T) {
	broker := broker.Start(t)
	defer leak.Goroutines(t)()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	start := func(topics *pubsub.Hub, grace time.Duration,
		subscribed chan struct{}) *server.Server {
		s := source()
		s.Topics, s.Listen, s.Logger = topics, []string{"127.0.0.1:0"},
			logtext.Quiet
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
		c, err := s.Parse("t.conf",
			fmt.Sprintf("threads = 2\ngrace = %q\n[pubsub]\nurl = %q\n", grace, broker.URL()))
		if err != nil {
			t.Fatal(err)
		}
		srv, err := server.Start(s, c)
		if err != nil {
			t.Fatal(err)
		}
		return srv
	}
	var hubs [2]pubsub.Hub
	subscribed := make(chan struct{}, 2)
	one := start(&hubs[0], 20*time.Second, subscribed)
	two := start(&hubs[1], 10*time.Millisecond, subscribed)

	fetching := func(room string) <-chan string {
		body := make(chan string, 1)
		go func() {
			defer close(body)
			body <- fetch(t, one.Addresses()[0]+room)
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
	c, err := net.Dial("tcp", two.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /last/ HTTP/1.1\r\nHost: x\r\n\r\n")
	<-subscribed
	two.Stop()
	if err := two.Wait(); err != nil {
		t.Error(err)
	}
	if body := <-got; !strings.Contains(body, "gone") {
		t.Errorf("%q", body)
	}
	one.Stop()
	if err := one.Wait(); err != nil {
		t.Error(err)
	}
}

// What topics may hold is the configuration's, and the next one's from a reload on.
func TestTopicsAreLimited(t *testing.T) {
	defer leak.Goroutines(t)()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const topics = 200 // of 16 KiB each
	var hub pubsub.Hub
	s := source()
	s.File = filepath.Join(t.TempDir(), "lwango.conf")
	s.Topics, s.Listen = &hub, []string{"127.0.0.1:0"}
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
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[pubsub]\nmax_bytes = \"1MiB\"\n")
	c, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Start(s, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		srv.Stop()
		if err := srv.Wait(); err != nil {
			t.Error(err)
		}
	}()
	remembered := func(from, to int) {
		t.Helper()
		var n int
		if _, err := fmt.Sscan(fetch(t, srv.Addresses()[0]), &n); err != nil || n < from || n > to {
			t.Errorf("%d topics are remembered, %v; want %d to %d", n, err, from, to)
		}
	}
	remembered(50, 63)
	write("[pubsub]\nmax_bytes = \"2MiB\"\n")
	if err := srv.Reload(); err != nil {
		t.Fatal(err)
	}
	remembered(100, 127)
	write("")
	if err := srv.Reload(); err != nil {
		t.Fatal(err)
	}
	remembered(topics, topics)
}
