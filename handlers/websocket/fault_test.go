package websocket_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/loop"
)

// ending runs a handler's echo and notes what each of its connections has ended with.
func ending(u *websocket.Upgrader, ends chan<- error) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		c, err := u.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		for {
			_, err := c.AwaitAny(-1, c)
			var kind int
			var p []byte
			if err == nil {
				kind, p, err = c.ReadMessage()
			}
			if err == nil {
				err = c.WriteMessage(kind, p)
			}
			if err != nil {
				ends <- err
				return 0
			}
		}
	}
}

// code waits for the end of a connection, and returns the code it has ended with.
func code(t *testing.T, ends <-chan error) int {
	t.Helper()
	select {
	case err := <-ends:
		if e, ok := errors.AsType[*websocket.CloseError](err); ok {
			return e.Code
		}
		t.Fatalf("the end is no CloseError but %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("no end")
	}
	return 0
}

// expect reads frames that must come.
func (c *client) expect(want ...received) {
	c.t.Helper()
	for _, w := range want {
		if f, err := c.next(); err != nil || f != w {
			c.t.Fatalf("got %.100q, %v; want %.100q", f, err, w)
		}
	}
}

// closed reads a close frame and the end.
func (c *client) closed(code int) {
	c.t.Helper()
	f, err := c.next()
	if err != nil || f.first != 0x88 || len(f.payload) < 2 || int(binary.BigEndian.Uint16([]byte(f.payload))) != code {
		c.t.Fatalf("got %.100q, %v; want a close with %d", f, err, code)
	}
	if code == 1001 {
		_, _ = io.WriteString(c, bye)
	}
	if f, err := c.read(); err != io.EOF {
		c.t.Fatalf("after the close: %.100q, %v", f, err)
	}
}

// TestLonePing: control frames between messages are seen to at once, and however long nothing follows, no message has begun.
func TestLonePing(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		const limit = 20 * time.Millisecond
		s := start(t, m, echo(&websocket.Upgrader{MessageTimeout: limit}))
		c := s.upgrade()
		for range 3 {
			c.send(frame(0x89, "p"))
			c.expect(pong("p"))
			c.send(frame(0x8a, "x"))
			s.on(func(l *loop.Loop) {}) // its clock goes on
			time.Sleep(3 * limit)       // the case is the silence
			c.send(frame(0x81, "m"))
			c.expect(text("m"))
		}
		c.send(bye)
		c.closed(1000)
	})
}

// TestFramesAlreadyThere: of two frames that come in one segment, and over TLS in one record, none is overlooked while the
// thread waits for other things as well.
func TestFramesAlreadyThere(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var u websocket.Upgrader
		var other atomic.Pointer[loop.Promise[int]]
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			never := new(loop.Promise[int])
			timer := req.After(time.Hour)
			p := new(loop.Promise[int])
			other.Store(p)
			for {
				switch i, err := c.AwaitAny(time.Minute, p, timer, c, never); {
				case err != nil:
					return 0
				case i == 0:
					v, _ := p.Value()
					_ = c.WriteMessage(websocket.Text, []byte{byte(v)})
					p = new(loop.Promise[int])
					other.Store(p)
				case i == 2:
					kind, m, err := c.ReadMessage()
					if err != nil || c.WriteMessage(kind, m) != nil {
						return 0
					}
				default:
					t.Errorf("source %d", i)
				}
			}
		})
		c := s.upgrade()
		c.send(frame(0x81, "1") + frame(0x81, "2"))
		c.expect(text("1"), text("2"))
		other.Load().Resolve('x')
		c.expect(text("x"))
		c.send(frame(0x01, "1") + frame(0x89, "p") + frame(0x80, "2") + frame(0x89, "q") + frame(0x81, "3") + frame(0x81, "4")[:3])
		c.expect(pong("p"), text("12"), pong("q"), text("3"))
		other.Load().Resolve('y') // a beginning of a header holds nothing up
		c.expect(text("y"))
		c.send(frame(0x81, "4")[3:] + bye)
		c.expect(text("4"))
		c.closed(1000)
	})
}

// TestMessageWaits: a thread that does not wait for messages is not told of them, and they have no limit until it reads;
// but pings are answered.
func TestMessageWaits(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{MessageTimeout: 20 * time.Millisecond}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			for range 2 {
				if i, err := c.AwaitAny(100*time.Millisecond, new(loop.Promise[int])); i != -1 || err != os.ErrDeadlineExceeded {
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
			return 0
		})
		c := s.upgrade()
		c.send(frame(0x89, "p"))
		c.expect(pong("p"))
		c.send(frame(0x89, "q") + frame(0x81, "m") + frame(0x89, "r") + frame(0x81, "n"))
		c.expect(pong("q"), text("m"), pong("r"))
		go s.stop(10 * time.Second)
		c.closed(1001)
	})
}

// TestEarly: a client that does not wait for the answer to its handshake is served all the same.
func TestEarly(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(new(websocket.Upgrader)))
		for _, long := range []string{"early", strings.Repeat("x", 9000)} {
			c := &client{Conn: s.dial(), t: t}
			c.send(handshake + "\r\n" + frame(0x81, long) + frame(0x81, "b")[:4])
			c.answered()
			c.expect(text(long))
			c.send(frame(0x81, "b")[4:] + bye)
			c.expect(text("b"))
			c.closed(1000)
		}
	})
}

// TestPeerLeaves, at any time, without a word.
func TestPeerLeaves(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(new(websocket.Upgrader), ends))
		for _, before := range []string{"", frame(0x81, "x")[:1], frame(0x81, "x")[:4], frame(0x81, "xyz")[:8], frame(0x01, "x"), frame(0x89, "x")[:6], frame(0x01, "a") + frame(0x89, "x")[:3]} {
			for _, reset := range []bool{false, true} {
				c := s.upgrade()
				c.send(before)
				if reset {
					s.settle()
					c.reset()
				}
				c.Close()
				if got := code(t, ends); got != websocket.Abnormal {
					t.Errorf("%q, reset %v: ended with %d", before, reset, got)
				}
				s.idle()
			}
		}
	})
}

// TestByteAMinute: a message that does not come to its end in time is refused, however it was begun.
func TestByteAMinute(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(&websocket.Upgrader{MessageTimeout: 50 * time.Millisecond}, ends))
		for _, before := range []string{"\x81", frame(0x81, "x")[:4], frame(0x81, "xyz")[:8], frame(0x01, "x"), frame(0x89, "x")[:6], frame(0x01, "a") + frame(0x89, "")} {
			c := s.upgrade()
			c.send(before)
			if strings.HasSuffix(before, frame(0x89, "")) {
				c.expect(pong(""))
			}
			c.closed(1008)
			c.Close()
			if got := code(t, ends); got != 1008 {
				t.Errorf("%q: ended with %d", before, got)
			}
		}
		s.idle()
	})
}

// TestSlowButSteady: pings within a message do not keep it alive.
func TestPingsDoNotProlong(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{MessageTimeout: 100 * time.Millisecond}))
		c := s.upgrade()
		c.send(frame(0x01, "x"))
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

// TestKeepAlive: a peer that answers pings stays, and one that does not is cut off.
func TestKeepAlive(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(&websocket.Upgrader{PingInterval: 20 * time.Millisecond, IdleTimeout: 5 * time.Second}, ends))
		c := s.upgrade()
		for range 5 {
			c.expect(received{0x89, ""})
			c.send(frame(0x8a, ""))
		}
		c.send(bye)
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
		s = start(t, m, ending(&websocket.Upgrader{PingInterval: 20 * time.Millisecond, IdleTimeout: 60 * time.Millisecond}, ends))
		c = s.upgrade()
		c.expect(received{0x89, ""})
		if got := code(t, ends); got != websocket.Abnormal {
			t.Errorf("ended with %d", got)
		}
		s.idle()
	})
}

// TestKeepAliveOfTheBusy: what a thread sends itself is no sign of life of its peer.
func TestKeepAliveOfTheBusy(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{PingInterval: 20 * time.Millisecond, IdleTimeout: 80 * time.Millisecond}
		ends := make(chan error, 1)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			timer := req.After(0)
			for {
				i, err := c.AwaitAny(-1, timer)
				if err != nil {
					ends <- err
					return 0
				}
				if i != 0 {
					t.Errorf("source %d", i)
				}
				_ = c.WriteMessage(websocket.Text, []byte("tick"))
				timer.Reset(5 * time.Millisecond)
			}
		})
		c := s.upgrade()
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

// TestPeerNeverReads: it is cut off, and with it what it was sent.
func TestPeerNeverReads(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{WriteTimeout: 50 * time.Millisecond, Compression: true}
		ends := make(chan error, 1)
		large, err := websocket.Prepare(websocket.Binary, make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			for err == nil {
				if req.Path() == "/prepared" {
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
			return 0
		})
		for _, path := range []string{"/", "/prepared"} {
			c := &client{Conn: s.dial(), t: t}
			c.send(strings.Replace(handshake, "/", path, 1) + "\r\n")
			for range 2 {
				if got := code(t, ends); got != websocket.Abnormal {
					t.Errorf("ended with %d", got)
				}
			}
			s.idle()
		}
	})
}

// TestPeerReadsSlowly, but at a pace that can be borne: nothing is lost.
func TestPeerReadsSlowly(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		const size = 3 << 20
		u := &websocket.Upgrader{ReadLimit: size}
		s := start(t, m, echo(u))
		c := s.upgrade()
		want := strings.Repeat("0123456789abcdef", size/16)
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(c, frame(0x82, want))
			sent <- err
		}()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		c.expect(bin(want))
	})
}

// TestPeerDoesNotEnd: one that answers a close with more and more is left all the same.
func TestPeerDoesNotEnd(t *testing.T) {
	defer websocket.SetCloseWait(100 * time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		ends := make(chan error, 1)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			if req.Path() == "/bad" {
				_, _, err = c.ReadMessage()
			}
			ends <- c.Close(1000, "")
			return 0
		})
		for _, path := range []string{"/", "/bad"} {
			c := &client{Conn: s.dial(), t: t}
			c.send(strings.Replace(handshake, "/", path, 1) + "\r\n")
			if path == "/bad" {
				c.send(frame(0x83, ""))
			}
			for more := strings.Repeat(frame(0x82, "x"), 10000); ; {
				if _, err := io.WriteString(c, more); err != nil {
					break
				}
			}
			if err := <-ends; err == nil {
				t.Errorf("%s: no error", path)
			}
			s.idle()
		}
	})
}

// TestManyVanish: a thousand clients that are gone without a word are found out by the pings, and leave nothing behind.
func TestManyVanish(t *testing.T) {
	if invariants.Enabled {
		t.Skip("slow")
	}
	u := &websocket.Upgrader{PingInterval: 200 * time.Millisecond, IdleTimeout: 400 * time.Millisecond}
	s := start(t, plain, echo(u))
	before := 0
	s.on(func(l *loop.Loop) { before = l.Threads() })
	const many = 1000
	for range many {
		s.upgrade() // and never reads again
	}
	s.idle()
	s.on(func(l *loop.Loop) {
		if n := l.Threads(); n != before {
			t.Errorf("%d threads, %d before", n, before)
		}
	})
}

// TestServerStops: clients are told, and those that do not answer do not hold it up.
func TestServerStops(t *testing.T) {
	defer websocket.SetCloseWait(500 * time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		ends := make(chan error, 4)
		s := start(t, m, ending(new(websocket.Upgrader), ends))
		polite, mute, within, gone := s.upgrade(), s.upgrade(), s.upgrade(), s.upgrade()
		within.send(frame(0x81, "x")[:3])
		gone.Close()
		s.settle()
		began := time.Now()
		stopped := make(chan struct{})
		go func() { s.stop(20 * time.Second); close(stopped) }()
		polite.closed(1001)
		within.closed(1001)
		if f, err := mute.next(); err != nil || f.first != 0x88 {
			t.Errorf("%q, %v", f, err)
		}
		<-stopped
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("the stop took %v", d)
		}
		codes := []int{code(t, ends), code(t, ends), code(t, ends), code(t, ends)}
		slices.Sort(codes)
		if !slices.Equal(codes, []int{1001, 1001, 1001, 1006}) {
			t.Errorf("ended with %d", codes)
		}
	})
}

// TestKilled: a handler that heeds nothing is ended after the grace period; its client is told all the same.
func TestKilled(t *testing.T) {
	if invariants.Enabled {
		t.Skip("a forced EAGAIN takes the last word from a thread that cannot wait")
	}
	run(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			if _, err := u.Upgrade(req, resp); err != nil {
				return websocket.Status(err)
			}
			req.KeepWaiting(true)
			_ = req.Sleep(time.Hour)
			return 0
		})
		c := s.upgrade()
		s.stop(10 * time.Millisecond)
		c.closed(1001)
	})
}

// TestHandlerEnds: what the handler has not closed is closed after it.
func TestHandlerEnds(t *testing.T) {
	defer websocket.SetCloseWait(100 * time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			switch req.Path() {
			case "/panic":
				panic("handler")
			case "/close":
				c.Close(4000, strings.Repeat("é", 100))
				if _, _, err := c.ReadMessage(); !isCode(err, 4000) {
					t.Errorf("after Close: %v", err)
				}
				if err := c.WriteMessage(websocket.Text, nil); !isCode(err, 4000) {
					t.Errorf("after Close: %v", err)
				}
			}
			return 0
		})
		for _, row := range []struct {
			path, answer string
			code         int
			reason       string
		}{
			{"/", bye, 1000, ""},
			{"/", "", 1000, ""}, // nor does a client hold it that does not answer
			{"/", frame(0x82, strings.Repeat("x", 50000)) + frame(0x01, "x") + frame(0x89, "") + bye, 1000, ""},
			{"/", frame(0x83, "not a frame"), 1000, ""},
			{"/panic", bye, 1000, ""},
			{"/close", bye, 4000, strings.Repeat("é", 61)},
		} {
			c := &client{Conn: s.dial(), t: t}
			c.send(strings.Replace(handshake, "/", row.path, 1) + "\r\n")
			c.answered()
			f, err := c.next()
			if want := string(binary.BigEndian.AppendUint16(nil, uint16(row.code))) + row.reason; err != nil || f.first != 0x88 || f.payload != want {
				t.Errorf("%s: %q, %v, want %q", row.path, f, err, want)
			}
			_, _ = io.WriteString(c, row.answer)
			if f, err := c.read(); err != io.EOF && row.answer != frame(0x83, "not a frame") {
				t.Errorf("%s: then %q, %v", row.path, f, err)
			}
			s.idle()
		}
	})
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*websocket.CloseError](err)
	return ok && e.Code == code
}
