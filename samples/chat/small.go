package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
)

// socket makes a handler of what is done with a WebSocket.
func socket(use func(req *lwango.Request, c *websocket.Conn)) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		goAway, err := admit(req, "")
		if err != nil {
			return later(resp, err)
		}
		defer goAway()
		c, err := upgrader.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		use(req, c)
		return 0
	}
}

// write sends a random number every second.
func write(req *lwango.Request, c *websocket.Conn) {
	var err error
	for tick := req.After(0); err == nil; {
		ready := 0
		switch ready, err = c.AwaitAny(-1, tick, c); {
		case err != nil:
		case ready == 0:
			tick.Reset(time.Second)
			err = c.WriteMessage(websocket.Text, strconv.AppendInt(nil, rand.Int64(), 10))
		default:
			_, _, err = c.ReadMessage() // it is not used, but must be read to see the end
		}
	}
}

// read sends back what it gets, with the seconds since the last message.
func read(_ *lwango.Request, c *websocket.Conn) {
	for last := time.Now(); ; {
		kind, p, err := c.ReadMessage()
		if err != nil {
			return
		}
		now := time.Now()
		if c.WriteMessage(kind, fmt.Appendf(nil, "%.3f s: %s", now.Sub(last).Seconds(), p)) != nil {
			return
		}
		last = now
	}
}
