package websocket_test

import (
	"io"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/pubsub"
)

// TestServeSendsLast: what was published, or is in the mailbox, when the server stops comes before
// the close; what is for any member of a queue group does not.
func TestServeSendsLast(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		hub := new(pubsub.Hub)
		said, relayed, jobs := hub.Topic("said"), hub.Topic("relayed"), hub.Topic("jobs")
		b := &busy{open: func(c *websocket.Conn) {
			box := c.Mailbox(1000, false)
			c.Subscribe(said, pubsub.Options{}, func(c *websocket.Conn, m *pubsub.Message) {
				if say(c, m); m != nil && string(m.Data) == "said 2" {
					_ = box.Send(websocket.Text, []byte("boxed"))
					jobs.Publish([]byte("job"))
				}
			})
			c.Relay(relayed, pubsub.Options{}, framed)
			c.Subscribe(jobs, pubsub.Options{Group: "g"}, say)
		}}
		b.message = func(c *websocket.Conn, _ string) {
			l := c.Thread().Loop()
			l.Stop(wait.Patience)
			_, _ = c.Thread().AwaitAny(-1, l.Stopped())
			for _, text := range []string{"1", "2"} {
				said.Publish([]byte("said " + text))
				relayed.Publish([]byte("relayed " + text))
			}
		}
		s := start(t, m, b.serve(new(websocket.Upgrader)))
		c := upgrade(s)
		c.Send(frame(0x81, "stop"))
		c.expect(text("said 1"), text("relayed 1"), text("relayed 2"), text("said 2"), text("boxed"))
		c.closed(1001)
	}, plain, direct, overTLS, modes.HTTP2)
}

// TestStopOfTheBusy: a connection to which there is always something to say is closed all the same.
func TestStopOfTheBusy(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		room, ends := new(pubsub.Hub).Topic("room"), make(chan error, 1)
		s := start(t, m, talking(new(websocket.Upgrader), talk{room: room, message: back, ends: ends,
			open: func(*websocket.Conn) { room.Publish([]byte("busy")) },
			said: func(c *websocket.Conn, m *pubsub.Message) {
				room.Publish(m.Data)
				_ = c.WriteMessage(websocket.Text, m.Data)
			}}))
		c := upgrade(s)
		c.expect(text("busy"))
		s.All[0].Stop(wait.Patience)
		f, err := c.next()
		for err == nil && f == text("busy") {
			f, err = c.next()
		}
		if err != nil || f.payload != "\x03\xe9" {
			t.Errorf("then %q, %v", f, err)
		}
		_, _ = io.WriteString(c, bye)
		if got := code(t, ends); got != websocket.GoingAway {
			t.Errorf("ended with %d", got)
		}
	})
}

// TestStopOfTheSlow: a connection whose peer does not read what is left for it ends soon.
func TestStopOfTheSlow(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"relay", "mailbox"} {
		modes.Run(t, func(t *testing.T, m mode) {
			t.Parallel()
			const many = 200 // more than kernels hold
			hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 32 << 20}}
			said, relayed := hub.Topic("said"), hub.Topic("relayed")
			large := make([]byte, 60_000)
			ends, began := make(chan error, 1), time.Time{}
			s := start(t, m, talking(new(websocket.Upgrader), talk{message: back, ends: ends,
				open: func(c *websocket.Conn) {
					c.Relay(relayed, pubsub.Options{Queue: many}, framed)
					box := c.Mailbox(32<<20, false)
					c.Subscribe(said, pubsub.Options{}, func(c *websocket.Conn, _ *pubsub.Message) {
						l := c.Thread().Loop()
						l.Stop(wait.Patience)
						_, _ = c.Thread().AwaitAny(-1, l.Stopped())
						for range many {
							if from == "relay" {
								relayed.Publish(large)
							} else {
								_ = box.Send(websocket.Binary, large)
							}
						}
						began = time.Now()
					})
				}}))
			c := &client{s.DialSmall()}
			c.Send(handshake + "\r\n")
			c.answered()
			s.Settle()
			said.Publish([]byte("stop"))
			// Short writes of the invariants tag may fill the kernel's room up to the very end of a
			// message. Then the close frame may still go out.
			got := code(t, ends)
			if got != websocket.Abnormal && !(invariants.Enabled && got == websocket.GoingAway) {
				t.Errorf("%s: ended with %d", from, got)
			}
			if took := time.Since(began); took > 15*time.Second { // half of what a write may take
				t.Errorf("%s: took %v", from, took)
			}
		}, serving(direct), serving(overTLS))
	}
}

// TestStopOfTheFull: the time for the last words is over between two messages, and the close has no
// room.
func TestStopOfTheFull(t *testing.T) {
	t.Parallel()
	room, ends, began := new(pubsub.Hub).Topic("room"), make(chan error, 1), time.Time{}
	s := start(t, serving(modes.HTTP2),
		talking(&websocket.Upgrader{WriteTimeout: wait.Patience},
			talk{room: room, message: back, ends: ends,
				said: func(c *websocket.Conn, m *pubsub.Message) {
					l := c.Thread().Loop()
					if string(m.Data) == "stop" {
						l.Stop(wait.Patience)
						_, _ = c.Thread().AwaitAny(-1, l.Stopped())
						room.Publish([]byte("last"))
						return
					}
					// As much as the window of the stream, with a header of four bytes.
					if err := c.WriteMessage(websocket.Binary, make([]byte, http2.DefaultWindow-4)); err != nil {
						t.Error(err)
					}
					l.Layer().AdvanceClock(4 * time.Second) // more than the last words have
					began = time.Now()
				}}))
	c := &client{s.Dial()}
	c.Send(handshake + "\r\n")
	c.answered()
	s.Settle()
	room.Publish([]byte("stop"))
	if got := code(t, ends); got != websocket.Abnormal {
		t.Errorf("ended with %d", got)
	}
	if took := time.Since(began); took > wait.Patience/2 {
		t.Errorf("took %v", took)
	}
}

// leaver is a member of a room that tells the others when it leaves.
type leaver struct {
	room  *pubsub.Topic
	o     pubsub.Options
	relay bool
	ends  chan<- int
}

func (l *leaver) Open(c *websocket.Conn) {
	if l.relay {
		c.Relay(l.room, l.o, framed)
	} else {
		c.Subscribe(l.room, l.o, func(c *websocket.Conn, m *pubsub.Message) {
			if say(c, m); m == nil {
				_ = c.Close(websocket.TryAgainLater, "")
			}
		})
	}
}
func (l *leaver) Message(*websocket.Conn, int, []byte) {}
func (l *leaver) Closed(_ *websocket.Conn, err *websocket.CloseError) {
	l.room.Publish([]byte("somebody has left"))
	l.ends <- err.Code
}

// TestStopOfLeavers: what members of a room say when a stop ends them is for none of those that it
// ends later, however many there are.
func TestStopOfLeavers(t *testing.T) {
	t.Parallel()
	const many = 80
	for _, l := range []leaver{
		{o: pubsub.Options{Policy: pubsub.Disconnect}, relay: true},
		{o: pubsub.Options{Policy: pubsub.Disconnect}},
		{o: pubsub.Options{Policy: pubsub.Disconnect, Queue: 200}, relay: true},
		{o: pubsub.Options{Queue: 200}, relay: true},
		{relay: true},
		{o: pubsub.Options{Policy: pubsub.DropNewest}},
		{o: pubsub.Options{Policy: pubsub.DropNewest, Queue: 200}},
	} {
		ends := make(chan int, many)
		l.room, l.ends = new(pubsub.Hub).Topic("room"), ends
		s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
			return new(websocket.Upgrader).Serve(req, resp, &l)
		})
		var all []*client
		for range many {
			all = append(all, upgrade(s))
		}
		s.Settle()
		if l.o.Queue > many { // else those that leave first make the topic forget it
			l.room.Publish([]byte("last"))
		}
		s.All[0].Stop(wait.Patience)
		for _, c := range all {
			if l.o.Queue > many {
				c.expect(text("last"))
			}
			c.closed(websocket.GoingAway)
		}
		for range many {
			if code := <-ends; code != websocket.GoingAway {
				t.Errorf("%+v: ended with %d", l.o, code)
			}
		}
	}
}
