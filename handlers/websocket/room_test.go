package websocket_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// TestMemberNeverReads: a subscriber that reads nothing is cut off, and the room is the others'.
func TestMemberNeverReads(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		room, ends := new(pubsub.Hub).Topic("room"), make(chan error, 2)
		entered := make(chan struct{}, 2)
		k := talk{room: room, options: pubsub.Options{Queue: 1000}, message: back, ends: ends,
			open: func(*websocket.Conn) { entered <- struct{}{} },
			said: func(c *websocket.Conn, m *pubsub.Message) {
				_ = c.WriteMessage(websocket.Binary, m.Data)
			}}
		usual := talking(new(websocket.Upgrader), k)
		strict := talking(&websocket.Upgrader{WriteTimeout: 50 * time.Millisecond}, k)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			if req.Header().Get("Never-Reads") != "" {
				return strict(req, resp)
			}
			return usual(req, resp)
		})
		_, other := upgrade(s, "Never-Reads: yes\r\n"), upgrade(s)
		<-entered
		<-entered
		large := make([]byte, 512<<10)
		for n := 0; len(ends) == 0; n++ {
			if n == 100 {
				t.Fatal("50 MB have gone to one that does not read")
			}
			room.Publish(large)
			other.expect(bin(string(large)))
		}
		if got := code(t, ends); got != websocket.Abnormal {
			t.Errorf("ended with %d", got)
		}
		other.Send(bye)
		other.closed(1000)
	})
}

// TestHubAtItsLimit: a member that is behind while the hub has no room for more misses the oldest,
// and the others nothing.
func TestHubAtItsLimit(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		const size, many = 1000, 60
		hub := &pubsub.Hub{Limits: pubsub.Limits{Bytes: 16 * size}}
		room := hub.Topic("room")
		gate, entered := new(loop.Promise[int]), make(chan struct{}, 2)
		s := start(t, m, talking(new(websocket.Upgrader), talk{
			room: room,
			open: func(*websocket.Conn) { entered <- struct{}{} },
			message: func(c *websocket.Conn, _ int, _ []byte) {
				entered <- struct{}{}
				_, _ = gate.Await(c.Thread(), -1)
			},
			said: func(c *websocket.Conn, m *pubsub.Message) {
				_ = c.WriteMessage(websocket.Text, m.Data[:2])
			},
		}))
		behind, other := upgrade(s), upgrade(s)
		<-entered
		<-entered
		behind.Send(frame(0x81, "wait"))
		<-entered
		for i := range many {
			room.Publish(fmt.Appendf(nil, "%02d%*s", i, size-2, ""))
			other.expect(text(fmt.Sprintf("%02d", i)))
		}
		gate.Resolve(0)
		next := -1
		for n := 0; ; n++ {
			f, err := behind.next()
			var i int
			if _, e := fmt.Sscan(f.payload, &i); e != nil || err != nil || next >= 0 && i != next {
				t.Fatalf("got %q, %v, want %d", f, err, next)
			}
			if next < 0 && i < many/2 {
				t.Errorf("the first is message %d: nothing was dropped", i)
			}
			if next = i + 1; next == many {
				break
			}
		}
		room.Publish([]byte("on"))
		behind.expect(text("on"))
		other.expect(text("on"))
		for _, c := range []*client{behind, other} {
			c.Send(bye)
			c.closed(1000)
		}
	})
}

// TestMemberLeaves: one that leaves takes nothing from the room, whether it was told of a message
// before or is told right after.
func TestMemberLeaves(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		room, ends, entered := new(pubsub.Hub).Topic("room"), make(chan error, 8), make(chan struct{}, 8)
		s := start(t, m, talking(new(websocket.Upgrader), talk{
			room: room, message: back, ends: ends,
			open: func(*websocket.Conn) { entered <- struct{}{} },
			said: func(c *websocket.Conn, m *pubsub.Message) { _ = c.WriteMessage(websocket.Text, m.Data) },
		}))
		other := upgrade(s)
		<-entered
		for i, leave := range []func(c *client){
			func(c *client) { c.Close() },
			func(c *client) { c.Reset() },
			func(c *client) { c.Send(bye) },
			func(c *client) { c.Send(frame(0x83, "")) },
		} {
			c := upgrade(s)
			<-entered
			before, after := fmt.Sprint("before ", i), fmt.Sprint("after ", i)
			s.On(func(*loop.Loop) { // the loop learns of both at once
				room.Publish([]byte(before))
				leave(c)
				time.Sleep(time.Millisecond) // for the kernel; if it is late, the case is the other one
			})
			room.Publish([]byte(after))
			other.expect(text(before), text(after))
			select {
			case <-ends:
			case <-time.After(wait.Patience):
				t.Fatal("no end")
			}
			room.Publish([]byte("it has ended"))
			other.expect(text("it has ended"))
			c.Close()
		}
		other.Send(bye)
		other.closed(1000)
		s.Idle()
	})
}
