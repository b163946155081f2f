package websocket_test

import (
	"fmt"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
)

// A handler that sends back what it gets, and the time once a second.
func Example() {
	upgrader := &websocket.Upgrader{Compression: true}
	clock := func(req *conn.Request, resp *conn.Response) int {
		c, err := upgrader.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		tick := req.After(time.Second)
		for {
			i, err := c.AwaitAny(-1, c, tick)
			if err != nil {
				return 0 // the peer has left, the server stops, or the like
			}
			switch i {
			case 0:
				kind, p, err := c.ReadMessage()
				if err != nil || c.WriteMessage(kind, p) != nil {
					return 0
				}
			case 1:
				if c.WriteMessage(websocket.Text, fmt.Append(nil, time.Now())) != nil {
					return 0
				}
				tick.Reset(time.Second)
			}
		}
	}
	conn.NewServer(conn.Config{Handler: clock}) // with lwango.Handle in a program
}
