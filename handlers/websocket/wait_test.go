package websocket_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestLonePing: control frames between messages are seen to at once, and however long nothing
// follows, no message has begun.
func TestLonePing(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		const limit = wait.Patience
		s := start(t, m,
			echo(&websocket.Upgrader{MessageTimeout: limit, PingInterval: -1, IdleTimeout: time.Hour}))
		c := upgrade(s)
		for range 3 {
			c.Send(frame(0x89, "p"))
			c.expect(pong("p"))
			c.Send(frame(0x8a, "x"))
			s.Settle()
			s.Skip(3 * limit) // the case is the silence
			c.Send(frame(0x81, "m"))
			c.expect(text("m"))
		}
		c.Send(bye)
		c.closed(1000)
	})
}

// TestWaitCountsFromItsCall, and not from the turn of the loop, in which the handler has computed:
// neither shorter, where pings go out meanwhile, nor longer.
func TestWaitCountsFromItsCall(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		const limit = 100 * time.Millisecond
		u := websocket.Upgrader{PingInterval: limit / 4, IdleTimeout: wait.Patience}
		s := start(t, m, having(&u, func(c *websocket.Conn) {
			var err error
			time.Sleep(limit / 2)
			began := time.Now()
			_, err = c.AwaitAny(limit)
			// the loop's clock has whole milliseconds
			if d := time.Since(began); d < limit-2*time.Millisecond ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("waited for %v only: %v", d, err)
			}
			best := time.Hour // on a busy machine any wait may be long
			for try := 0; try < 20 && best > limit/4; try++ {
				time.Sleep(limit / 2)
				began = time.Now()
				_, _ = c.AwaitAny(0)
				best = min(best, time.Since(began))
			}
			if best > limit/4 {
				t.Errorf("looked for %v", best)
			}
		}))
		c := upgrade(s)
		for f, err := c.next(); f.first != 0x88; f, err = c.next() {
			if err != nil || f.first != 0x89 {
				t.Fatalf("%q, %v", f, err)
			}
		}
		c.Send(bye)
	})
}

// TestFramesAlreadyThere: of two frames that come in one segment, and over TLS in one record, none
// is overlooked while the thread waits for other things as well.
func TestFramesAlreadyThere(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		var u websocket.Upgrader
		var other atomic.Pointer[loop.Promise[int]]
		s := start(t, m, having(&u, func(c *websocket.Conn) {
			never := new(loop.Promise[int])
			timer := c.Thread().After(time.Hour)
			p := new(loop.Promise[int])
			other.Store(p)
			for {
				switch i, err := c.AwaitAny(time.Minute, p, timer, c, never); {
				case err != nil:
					return
				case i == 0:
					v, _ := p.Value()
					_ = c.WriteMessage(websocket.Text, []byte{byte(v)})
					p = new(loop.Promise[int])
					other.Store(p)
				case i == 2:
					kind, m, err := c.ReadMessage()
					if err != nil || c.WriteMessage(kind, m) != nil {
						return
					}
				default:
					t.Errorf("source %d", i)
				}
			}
		}))
		c := upgrade(s)
		c.Send(frame(0x81, "1") + frame(0x81, "2"))
		c.expect(text("1"), text("2"))
		other.Load().Resolve('x')
		c.expect(text("x"))
		c.Send(frame(0x01, "1") + frame(0x89, "p") + frame(0x80, "2") + frame(0x89, "q") +
			frame(0x81, "3") + frame(0x81, "4")[:3])
		c.expect(pong("p"), text("12"), pong("q"), text("3"))
		other.Load().Resolve('y') // a beginning of a header holds nothing up
		c.expect(text("y"))
		c.Send(frame(0x81, "4")[3:] + bye)
		c.expect(text("4"))
		c.closed(1000)
	})
}

// TestMessageWaits: a thread that does not wait for messages is not told of them, and they have no
// limit until it reads; but pings are answered.
func TestMessageWaits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{MessageTimeout: 20 * time.Millisecond}
		s := start(t, m, having(u, func(c *websocket.Conn) {
			for range 2 {
				if i, err := c.AwaitAny(100*time.Millisecond, new(loop.Promise[int])); i != -1 ||
					err != loop.ErrDeadlineExceeded {
					t.Errorf("source %d, %v", i, err)
				}
			}
			if i, err := c.AwaitAny(time.Minute, new(loop.Promise[int]), c); i != 1 || err != nil {
				t.Errorf("source %d, %v", i, err)
			}
			_, p, err := c.ReadMessage()
			if err != nil {
				t.Error(err)
			}
			_ = c.WriteMessage(websocket.Text, p)
			if _, err := c.AwaitAny(-1); !isCode(err, websocket.GoingAway) {
				t.Errorf("the stop: %v", err)
			}
		}))
		c := upgrade(s)
		c.Send(frame(0x89, "p"))
		c.expect(pong("p"))
		c.Send(frame(0x89, "q") + frame(0x81, "m") + frame(0x89, "r") + frame(0x81, "n"))
		c.expect(pong("q"), text("m"), pong("r"))
		go s.Stop(10 * time.Second)
		c.closed(1001)
	})
}

// TestEarly: a client that does not wait for the answer to its handshake is served all the same.
func TestEarly(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(new(websocket.Upgrader)))
		for _, long := range []string{"early", strings.Repeat("x", 9000)} {
			c := &client{s.Dial()}
			c.Send(handshake + "\r\n" + frame(0x81, long) + frame(0x81, "b")[:4])
			c.answered()
			c.expect(text(long))
			c.Send(frame(0x81, "b")[4:] + bye)
			c.expect(text("b"))
			c.closed(1000)
		}
	})
}

// TestKeepAlive: a peer that answers pings stays, and one that does not is cut off.
func TestKeepAlive(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(&websocket.Upgrader{PingInterval: 20 * time.Millisecond,
			IdleTimeout: wait.Patience}, ends))
		c := upgrade(s)
		for range 5 {
			c.expect(received{0x89, ""})
			c.Send(frame(0x8a, ""))
		}
		c.Send(bye)
		for {
			if f, err := c.next(); err != nil {
				t.Fatal(err)
			} else if f.first == 0x88 {
				break
			}
		}
		if got := code(t, ends); got != 1000 {
			t.Errorf("ended with %d", got)
		}
		s = start(t, m, ending(&websocket.Upgrader{PingInterval: 20 * time.Millisecond,
			IdleTimeout: 60 * time.Millisecond}, ends))
		upgrade(s) // and does not answer the ping, if there is one before its time is over
		if got := code(t, ends); got != websocket.Abnormal {
			t.Errorf("ended with %d", got)
		}
		s.Idle()
	})
}

// TestKeepAliveOfTheBusy: what a thread sends itself is no sign of life of its peer.
func TestKeepAliveOfTheBusy(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		t.Parallel()
		u := &websocket.Upgrader{PingInterval: 20 * time.Millisecond,
			IdleTimeout: 2 * time.Second} // time for a ping, also of a loop that is held up
		ends := make(chan error, 1)
		s := start(t, m, having(u, func(c *websocket.Conn) {
			timer := c.Thread().After(0)
			for {
				i, err := c.AwaitAny(-1, timer)
				if err != nil {
					ends <- err
					return
				}
				if i != 0 {
					t.Errorf("source %d", i)
				}
				_ = c.WriteMessage(websocket.Text, []byte("tick"))
				// So often that the silence is never the loop's, and so little that the client
				// proves nothing by reading it: 1 KiB within IdleTimeout.
				timer.Reset(50 * time.Millisecond)
			}
		}))
		c := upgrade(s)
		var got []received
		for {
			f, err := c.next()
			if err != nil {
				break
			}
			if !slices.Contains(got, f) {
				got = append(got, f)
			}
		}
		if !slices.Contains(got, text("tick")) || !slices.Contains(got, received{0x89, ""}) {
			t.Errorf("got %q", got)
		}
		if got := code(t, ends); got != websocket.Abnormal {
			t.Errorf("ended with %d", got)
		}
	})
}
