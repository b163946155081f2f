package sse_test

import (
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
)

// A clock, and where the server is told of it:
//
//	new EventSource("/clock").onmessage = (e) => console.log(e.lastEventId, e.data);
func Example() {
	clock := func(req *conn.Request, resp *conn.Response) int {
		stream, err := sse.Open(req, resp)
		n, _ := strconv.Atoi(stream.LastEventID()) // a client that connects again goes on counting
		for tick := req.After(0); err == nil; tick.Reset(time.Second) {
			if _, err = stream.AwaitAny(-1, tick); err == nil {
				n++
				err = stream.Send(sse.Event{ID: strconv.Itoa(n), Data: []byte(time.Now().Format(time.TimeOnly))})
			}
		}
		return 200 // the client has left, or the server stops
	}
	_ = clock // lwango.Handle("/clock", clock)
}
