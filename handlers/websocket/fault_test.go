package websocket_test

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// code waits for the end of a connection, and returns the code it has ended with.
func code(t *testing.T, ends <-chan error) int {
	t.Helper()
	select {
	case err := <-ends:
		if e, ok := errors.AsType[*websocket.CloseError](err); ok {
			return e.Code
		}
		t.Fatalf("the end is no CloseError but %v", err)
	case <-time.After(wait.Patience):
		t.Fatal("no end")
	}
	return 0
}

// expect reads frames that must come.
func (c *client) expect(want ...received) {
	c.T.Helper()
	for _, w := range want {
		if f, err := c.next(); err != nil || f != w {
			c.T.Fatalf("got %.100q, %v; want %.100q", f, err, w)
		}
	}
}

// closed reads a close frame and the end.
func (c *client) closed(code int) {
	c.T.Helper()
	f, err := c.next()
	if err != nil || f.first != 0x88 || len(f.payload) < 2 ||
		int(binary.BigEndian.Uint16([]byte(f.payload))) != code {
		c.T.Fatalf("got %.100q, %v; want a close with %d", f, err, code)
	}
	if code == 1001 {
		_, _ = io.WriteString(c, bye)
	}
	if f, err := c.read(); err != io.EOF {
		c.T.Fatalf("after the close: %.100q, %v", f, err)
	}
}

// TestPeerLeaves, at any time, without a word.
func TestPeerLeaves(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(new(websocket.Upgrader), ends))
		for _, before := range []string{"", frame(0x81, "x")[:1], frame(0x81, "x")[:4],
			frame(0x81, "xyz")[:8], frame(0x01, "x"), frame(0x89, "x")[:6],
			frame(0x01, "a") + frame(0x89, "x")[:3]} {
			for _, reset := range []bool{false, true} {
				c := upgrade(s)
				c.Send(before)
				if reset {
					s.Settle()
					c.Reset()
				}
				c.Close()
				if got := code(t, ends); got != websocket.Abnormal {
					t.Errorf("%q, reset %v: ended with %d", before, reset, got)
				}
				s.Idle()
			}
		}
	})
}

// TestByteAMinute: a message that does not come to its end in time is refused, however it was
// begun.
func TestByteAMinute(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(&websocket.Upgrader{MessageTimeout: 50 * time.Millisecond}, ends))
		for _, before := range []string{"\x81", frame(0x81, "x")[:4], frame(0x81, "xyz")[:8],
			frame(0x01, "x"), frame(0x89, "x")[:6], frame(0x01, "a") + frame(0x89, "")} {
			c := upgrade(s)
			c.Send(before)
			if strings.HasSuffix(before, frame(0x89, "")) {
				c.expect(pong(""))
			}
			c.closed(1008)
			c.Close()
			if got := code(t, ends); got != 1008 {
				t.Errorf("%q: ended with %d", before, got)
			}
		}
		s.Idle()
	})
}

// TestPingsDoNotProlong: pings within a message do not keep it alive.
func TestPingsDoNotProlong(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{MessageTimeout: 100 * time.Millisecond}))
		c := upgrade(s)
		c.Send(frame(0x01, "x"))
		stop := make(chan struct{})
		var done sync.WaitGroup
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					_, _ = io.WriteString(c, frame(0x8a, ""))
				}
			}
		})
		c.closed(1008)
		close(stop)
		done.Wait()
	})
}

// TestPeerNeverReads: it is cut off, and with it what it was sent.
func TestPeerNeverReads(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{WriteTimeout: 50 * time.Millisecond, Compression: true}
		ends := make(chan error, 1)
		large := must.Get(websocket.Prepare(websocket.Binary, make([]byte, 1<<20)))(t)
		s := start(t, m, choosing(u, func(req *conn.Request) talk {
			path := req.Path()
			return talk{open: func(c *websocket.Conn) {
				var err error
				for err == nil {
					if path == "/prepared" {
						err = c.WritePrepared(large)
					} else {
						err = c.WriteMessage(websocket.Binary, make([]byte, 300))
					}
				}
				ends <- err
				if err := c.WriteMessage(websocket.Text, nil); err == nil {
					t.Error("written after the end")
				}
				_, _, err = c.ReadMessage()
				ends <- err
			}}
		}))
		for _, path := range []string{"/", "/prepared"} {
			c := &client{s.Dial()}
			c.Send(strings.Replace(handshake, "/", path, 1) + "\r\n")
			for range 2 {
				if got := code(t, ends); got != websocket.Abnormal {
					t.Errorf("ended with %d", got)
				}
			}
			s.Idle()
		}
	})
}

// TestPeerReadsSlowly, but at a pace that can be borne: nothing is lost.
func TestPeerReadsSlowly(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		const size = 3 << 20
		u := &websocket.Upgrader{ReadLimit: size}
		s := start(t, m, echo(u))
		c := upgrade(s)
		want := strings.Repeat("0123456789abcdef", size/16)
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(c, frame(0x82, want))
			sent <- err
		}()
		must.Do(t, <-sent)
		c.expect(bin(want))
	})
}

// TestManyVanish: a thousand clients that are gone without a word are found out by the pings, and
// leave nothing behind.
func TestManyVanish(t *testing.T) {
	ci.Without(t, invariants.Enabled, "slow")
	modes.Run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{PingInterval: 200 * time.Millisecond,
			IdleTimeout: 400 * time.Millisecond}
		s := start(t, m, echo(u))
		before := 0
		s.On(func(l *loop.Loop) { before = l.Threads() })
		const many = 1000
		for range many {
			upgrade(s) // and never reads again
		}
		s.Idle()
		s.On(func(l *loop.Loop) {
			if n := l.Threads(); n != before {
				t.Errorf("%d threads, %d before", n, before)
			}
		})
	}, plain, serving(direct))
}
