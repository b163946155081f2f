package websocket_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	gorilla "github.com/gorilla/websocket"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// A handler that sends back what it gets, and says something by itself when an hour has passed. One
// thread does both.
func Example() {
	upgrader := &websocket.Upgrader{Compression: true}
	echo := func(req *conn.Request, resp *conn.Response) int {
		c, err := upgrader.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		hour := req.After(time.Hour)
		for {
			i, err := c.AwaitAny(-1, c, hour)
			if err != nil {
				return 0 // the peer has left, the server stops, or the like
			}
			kind, p := websocket.Text, []byte("still there?")
			if i == 0 {
				if kind, p, err = c.ReadMessage(); err != nil {
					return 0
				}
			} else {
				hour.Reset(time.Hour)
			}
			if c.WriteMessage(kind, p) != nil {
				return 0
			}
		}
	}

	url, stop := server.StartExample(echo) // lwango.Handle("/echo", echo)
	defer stop()
	client, _, err := gorilla.DefaultDialer.Dial(strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.WriteMessage(gorilla.TextMessage, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	_, p, err := client.ReadMessage()
	fmt.Println(string(p), err)
	// Output: hello <nil>
}

// guest is somebody in a room, to whom all is said that is said there.
type guest struct{ room *pubsub.Topic }

func (m *guest) Open(c *websocket.Conn) {
	c.Subscribe(m.room, pubsub.Options{}, func(c *websocket.Conn, said *pubsub.Message) {
		if said != nil { // else the subscription has ended
			_ = c.WriteMessage(websocket.Text, said.Data)
		}
	})
}

func (m *guest) Message(_ *websocket.Conn, _ int, p []byte) { m.room.Publish(p) }

func (m *guest) Closed(*websocket.Conn, *websocket.CloseError) {}

// A room whose members hold no green thread while nobody speaks.
func ExampleUpgrader_Serve() {
	var topics pubsub.Hub // lwango.Topics()
	var upgrader websocket.Upgrader
	enter := func(req *conn.Request, resp *conn.Response) int {
		return upgrader.Serve(req, resp, &guest{topics.Topic(req.Path())})
	}

	url, stop := server.StartExample(enter) // lwango.Handle("/rooms", enter)
	defer stop()
	client, _, err := gorilla.DefaultDialer.Dial(strings.Replace(url, "http", "ws", 1)+"/rooms/1", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.WriteMessage(gorilla.TextMessage, []byte("hello, all")); err != nil {
		log.Fatal(err)
	}
	_, p, err := client.ReadMessage()
	fmt.Println(string(p), err)
	// Output: hello, all <nil>
}

// A message for many is framed, and compressed, once.
func ExamplePrepare() {
	message, err := websocket.Prepare(websocket.Text, []byte("to all of you"))
	if err != nil {
		log.Fatal(err)
	}
	var members []*websocket.Conn
	for _, c := range members {
		_ = c.WritePrepared(message)
	}
}
