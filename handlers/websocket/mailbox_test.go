package websocket_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// posting is a handler that gives its mailbox to the test and echoes.
func posting(limit int, closes bool, boxes chan<- *websocket.Mailbox,
	ends chan<- error) conn.Handler {
	return talking(new(websocket.Upgrader), talk{message: back, ends: ends,
		open: func(c *websocket.Conn) { boxes <- c.Mailbox(limit, closes) }})
}

// reading is posting that waits in reads, and not in AwaitAny.
func reading(limit int, closes bool, boxes chan<- *websocket.Mailbox,
	ends chan<- error) conn.Handler {
	return having(new(websocket.Upgrader), func(c *websocket.Conn) {
		boxes <- c.Mailbox(limit, closes)
		for {
			kind, p, err := c.ReadMessage()
			if err == nil {
				err = c.WriteMessage(kind, p)
			}
			if err != nil {
				ends <- err
				return
			}
		}
	})
}

// waits are handlers that give their mailboxes to the test.
var waits = []func(limit int, closes bool, boxes chan<- *websocket.Mailbox,
	ends chan<- error) conn.Handler{posting, reading}

// TestMailbox: goroutines send through the connection's thread, each in its own order, while it
// waits for messages and while it reads one that does not come to its end.
func TestMailbox(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		for _, h := range waits {
			mailbox(t, m, h)
		}
	})
}

func mailbox(t *testing.T, m mode,
	h func(int, bool, chan<- *websocket.Mailbox, chan<- error) conn.Handler) {
	t.Helper()
	boxes, ends := make(chan *websocket.Mailbox, 1), make(chan error, 1)
	s := start(t, m, h(1<<20, false, boxes, ends))
	c := upgrade(s)
	box := <-boxes
	for _, before := range []string{"", frame(0x01, "begun")} {
		c.Send(before)
		s.Settle()
		const senders, each = 4, 50
		var sending sync.WaitGroup
		for i := range senders {
			sending.Go(func() {
				for n := range each {
					if n == each/2 {
						p := must.Get(websocket.Prepare(websocket.Text, fmt.Append(nil, i, n)))(t)
						must.Do(t, box.SendPrepared(p))
						continue
					}
					p := fmt.Append(nil, i, n)
					must.Do(t, box.Send(websocket.Text, p))
					clear(p) // it was copied
				}
			})
		}
		var next [senders]int
		for range senders * each {
			f, err := c.next()
			var i, n int
			if _, e := fmt.Sscan(f.payload, &i, &n); err != nil || e != nil || f.first != 0x81 {
				t.Fatal(f, err, e)
			}
			if n != next[i] {
				t.Errorf("message %d of %d, want %d", n, i, next[i])
			}
			next[i] = n + 1
		}
		sending.Wait()
	}
	c.Send(frame(0x80, "!"))
	c.expect(text("begun!"))
	if err := box.Send(7, nil); err == nil {
		t.Error("a kind that is none")
	}
	c.Send(bye)
	c.closed(1000)
	if got := code(t, ends); got != 1000 {
		t.Errorf("ended with %d", got)
	}
	s.Idle()
	if err := box.Send(websocket.Text, nil); !isCode(err, 1000) {
		t.Errorf("after the end: %v", err)
	}
}

// TestMailboxIsFull: what has no room is refused; by the policy the connection ends.
func TestMailboxIsFull(t *testing.T) {
	for i, closes := range []bool{false, true, false, true} {
		both(t, func(t *testing.T, m mode) {
			boxes, ends := make(chan *websocket.Mailbox, 1), make(chan error, 1)
			s := start(t, m, waits[i/2](1000, closes, boxes, ends))
			c := upgrade(s)
			box := <-boxes
			message := []byte(strings.Repeat("x", 300))
			s.On(func(*loop.Loop) { // nothing is sent meanwhile
				for i := range 5 {
					err := box.Send(websocket.Text, message)
					if want := i >= 2; want != (err == websocket.ErrMailboxFull) || !want && err != nil {
						t.Errorf("message %d: %v", i, err)
					}
				}
			})
			c.expect(text(string(message)), text(string(message)))
			if closes {
				c.closed(1013)
				if got := code(t, ends); got != 1013 {
					t.Errorf("ended with %d", got)
				}
			} else {
				must.Do(t, box.Send(websocket.Text, message))
				c.expect(text(string(message)))
				c.Send(bye)
				c.closed(1000)
			}
			c.Close()
			s.Idle()
		})
	}
}

// TestMailboxWaitsForWriter: a message that is written in parts is not interrupted.
func TestMailboxWaitsForWriter(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		boxes, goOn := make(chan *websocket.Mailbox, 1), new(loop.Promise[int])
		s := start(t, m, having(new(websocket.Upgrader), func(c *websocket.Conn) {
			w := must.Get(c.NextWriter(websocket.Text))(t)
			must.Get(io.WriteString(w, "a"))(t)
			boxes <- c.Mailbox(1000, false)
			if _, err := c.AwaitAny(-1, goOn); err != nil {
				t.Error(err)
			}
			must.Get(io.WriteString(w, "b"))(t)
			must.Do(t, w.Close())
			_, _, _ = c.ReadMessage()
		}))
		c := upgrade(s)
		must.Do(t, (<-boxes).Send(websocket.Text, []byte("boxed")))
		s.Settle()
		goOn.Resolve(1)
		c.expect(text("ab"), text("boxed"))
		c.Send(bye)
		c.closed(1000)
	})
}

// boxed is served, and gives its mailbox to the test.
type boxed struct{ boxes chan *websocket.Mailbox }

func (b *boxed) Open(c *websocket.Conn)                      { b.boxes <- c.Mailbox(1<<10, true) }
func (*boxed) Closed(*websocket.Conn, *websocket.CloseError) {}
func (*boxed) Message(c *websocket.Conn, kind int, p []byte) { _ = c.WriteMessage(kind, p) }

// TestMailboxServed: a connection that holds no coroutine sends what is put into its mailbox, and
// gives up its window when it has sent nothing for long.
func TestMailboxServed(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		b := &boxed{make(chan *websocket.Mailbox, 1)}
		u := websocket.Upgrader{Compression: true, Takeover: true}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			return u.Serve(req, resp, b)
		})
		held := websocket.WindowsHeld()
		c := &client{s.Dial()}
		c.Send(handshake + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
		c.agreed()
		box := <-b.boxes
		var k keeper
		for i := range 3 {
			s.Unworked()
			must.Do(t, box.Send(websocket.Text, []byte(quotes(i)[:800])))
			f, err := c.read()
			if err != nil || f.first != 0xc1 || k.inflate(t, f.payload) != quotes(i)[:800] {
				t.Fatal(f, err)
			}
			must.Do(t, box.Send(websocket.Text, []byte("plain")))
			c.expect(text("plain"))
		}
		s.Unworked()
		if n := websocket.WindowsHeld() - held; n != 1 {
			t.Errorf("%d windows are held", n)
		}
		s.Skip(15 * time.Second)
		s.Unworked()
		if n := websocket.WindowsHeld() - held; n != 0 {
			t.Errorf("%d windows are held after a silence", n)
		}
		s.On(func(*loop.Loop) {
			must.Do(t, box.Send(websocket.Text, make([]byte, 900)))
			if err := box.Send(websocket.Text, make([]byte, 900)); err != websocket.ErrMailboxFull {
				t.Error(err)
			}
		})
		f, err := c.read()
		if err != nil || len(k.inflate(t, f.payload)) != 900 {
			t.Error(f, err)
		}
		c.closed(1013)
		c.Close()
		s.Idle()
		if err := box.Send(websocket.Text, nil); !isCode(err, 1013) {
			t.Errorf("after the end: %v", err)
		}
		if n := websocket.WindowsHeld() - held; n != 0 {
			t.Errorf("%d windows are held after the end", n)
		}
	}, plain, direct, overTLS)
}
