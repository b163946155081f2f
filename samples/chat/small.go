package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
)

// socket makes a handler of what a WebSocket does.
func socket(begin func() websocket.Handler) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		goAway, err := admit(req)
		if err != nil {
			return later(resp, err)
		}
		req.Defer(goAway) // when the socket ends
		return upgrader.Serve(req, resp, begin())
	}
}

// writer sends a random number every second.
type writer struct{}

func write() websocket.Handler { return writer{} }

// Open implements websocket.Handler.
func (w writer) Open(c *websocket.Conn) {
	if c.WriteMessage(websocket.Text, strconv.AppendInt(nil, rand.Int64(), 10)) == nil {
		c.After(time.Second, w.Open)
	}
}

// Message implements websocket.Handler.
func (writer) Message(*websocket.Conn, int, []byte) {}

// Closed implements websocket.Handler.
func (writer) Closed(*websocket.Conn, *websocket.CloseError) {}

// reader sends back what it gets, with the seconds since the last message.
type reader struct{ last time.Time }

func read() websocket.Handler { return &reader{time.Now()} }

// Open implements websocket.Handler.
func (*reader) Open(*websocket.Conn) {}

// Message implements websocket.Handler.
func (r *reader) Message(c *websocket.Conn, kind int, p []byte) {
	now := time.Now()
	_ = c.WriteMessage(kind, fmt.Appendf(nil, "%.3f s: %s", now.Sub(r.last).Seconds(), p))
	r.last = now
}

// Closed implements websocket.Handler.
func (*reader) Closed(*websocket.Conn, *websocket.CloseError) {}
