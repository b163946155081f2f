package sse_test

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// A countdown, and how a page is told of it:
//
//	new EventSource("/countdown").onmessage = (e) => console.log(e.lastEventId, e.data);
func Example() {
	countdown := func(req *conn.Request, resp *conn.Response) int {
		stream, err := sse.Open(req, resp)
		if err != nil {
			return 200 // a HEAD, or the client has left
		}
		n, _ := strconv.Atoi(stream.LastEventID()) // a client that connects again goes on counting
		for tick := req.After(0); n < 3 && err == nil; tick.Reset(time.Millisecond) {
			if _, err = stream.AwaitAny(-1, tick); err == nil {
				n++
				err = stream.Send(sse.Event{ID: strconv.Itoa(n), Data: fmt.Append(nil, "in ", 3-n)})
			}
		}
		return 200 // the end, or the client has left, or the server stops
	}

	url, stop := server.StartExample(countdown) // lwango.Handle("/countdown", countdown)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// id: 1
	// data: in 2
	//
	// id: 2
	// data: in 1
	//
	// id: 3
	// data: in 0
}

// news sends what is published, up to the last word.
type news struct{ topic *pubsub.Topic }

func (n news) Open(s *sse.Stream) {
	s.Subscribe(n.topic, pubsub.Options{History: 2}, func(s *sse.Stream, m *pubsub.Message) {
		if m == nil || string(m.Data) == "good night" {
			s.Close()
			return
		}
		_ = s.Send(sse.Event{Data: m.Data})
	})
}

func (news) Closed(*sse.Stream, error) {}

// A stream that holds no green thread while there is nothing new.
func ExampleServe() {
	var topics pubsub.Hub // lwango.Topics()
	follow := func(req *conn.Request, resp *conn.Response) int {
		return sse.Serve(req, resp, news{topics.Topic("news")})
	}

	url, stop := server.StartExample(follow) // lwango.Handle("/news", follow)
	defer stop()
	topics.Topic("news").Publish([]byte("it rains"))
	topics.Topic("news").Publish([]byte("good night"))
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// data: it rains
}

// Lines that are sent to many clients are framed once.
func ExampleAppendEvent() {
	b, err := sse.AppendEvent(nil, sse.Event{Name: "news", Data: []byte("two\nlines")})
	fmt.Printf("%s%v", b, err)
	// Output:
	// event: news
	// data: two
	// data: lines
	//
	// <nil>
}
