package websocket_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestPeerDoesNotEnd: one that answers a close with more and more is left all the same.
func TestPeerDoesNotEnd(t *testing.T) {
	defer websocket.SetCloseWait(100 * time.Millisecond)()
	both(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		ends := make(chan error, 1)
		s := start(t, m, choosing(u, func(req *conn.Request) talk {
			bad := req.Path() == "/bad"
			return talk{open: func(c *websocket.Conn) {
				if bad {
					_, _, _ = c.ReadMessage()
				}
				ends <- c.Close(1000, "")
			}}
		}))
		for _, path := range []string{"/", "/bad"} {
			c := &client{s.Dial()}
			c.Send(strings.Replace(handshake, "/", path, 1) + "\r\n")
			if path == "/bad" {
				c.Send(frame(0x83, ""))
			}
			for more := strings.Repeat(frame(0x82, "x"), 10000); ; {
				if _, err := io.WriteString(c, more); err != nil {
					break
				}
			}
			if err := <-ends; err == nil {
				t.Errorf("%s: no error", path)
			}
			s.Idle()
		}
	})
}

// TestAnsweredInTime: a loop that is held up sees the answer to a close frame when the limit has
// passed. The connection ends in order, and not by a reset.
func TestAnsweredInTime(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a forced EAGAIN hides the answer")
	const limit = 200 * time.Millisecond
	defer websocket.SetCloseWait(limit)()
	bothAtOnce(t, func(t *testing.T, m mode) {
		var u websocket.Upgrader
		held, ended := make(chan struct{}), make(chan error, 1)
		release := sync.OnceFunc(func() { close(held) })
		defer release()
		s := start(t, m, having(&u, func(c *websocket.Conn) {
			_ = c.Thread().Loop().Post(func() { <-held }) // in the next turn, when Close waits
			ended <- c.Close(1000, "")
		}))
		c := upgrade(s)
		if f, err := c.next(); err != nil || f.first != 0x88 {
			t.Errorf("%q, %v", f, err)
		}
		c.Send(bye)
		time.Sleep(limit * 3 / 2) // the case
		release()
		if err := <-ended; err != nil {
			t.Errorf("closed with %v", err)
		}
		if f, err := c.read(); err != io.EOF {
			t.Errorf("then %q, %v", f, err)
		}
		s.Idle()
	})
}

// TestServerStops: clients are told, and those that do not answer do not hold it up.
func TestServerStops(t *testing.T) {
	const limit = 20 * wait.Patience // a tenth of it while the server stops
	defer websocket.SetCloseWait(limit)()
	both(t, func(t *testing.T, m mode) {
		ends := make(chan error, 4)
		s := start(t, m, ending(new(websocket.Upgrader), ends))
		polite, mute, within, gone := upgrade(s), upgrade(s), upgrade(s), upgrade(s)
		within.Send(frame(0x81, "x")[:3])
		gone.Close()
		if n := code(t, ends); n != 1006 {
			t.Errorf("gone: ended with %d", n)
		}
		s.Settle()
		stopped := make(chan struct{})
		go func() { s.Stop(limit); close(stopped) }()
		for _, c := range []*client{polite, within, mute} {
			if f, err := c.next(); err != nil || f.first != 0x88 ||
				!strings.HasPrefix(f.payload, "\x03\xe9") {
				t.Errorf("%q, %v; want a close with 1001", f, err)
			}
			if c != mute {
				_, _ = io.WriteString(c, bye) // which is the rest of a message of within
			}
		}
		if f, err := polite.read(); err != io.EOF {
			t.Errorf("after the close: %q, %v", f, err)
		}
		each := func(f func(l *loop.Loop)) { // that runs: those without connections have ended
			for _, l := range s.All {
				done := make(chan struct{})
				if l.Post(func() { f(l); close(done) }) == nil {
					<-done
				}
			}
		}
		for range 3 { // until the server waits for the others' answers
			each(func(*loop.Loop) {})
		}
		select {
		case <-stopped:
			t.Error("the server has not waited for the answer")
		default:
		}
		each(func(l *loop.Loop) { l.Layer().AdvanceClock(limit/10 + time.Second) })
		<-stopped
		codes := []int{code(t, ends), code(t, ends), code(t, ends)}
		if !slices.Equal(codes, []int{1001, 1001, 1001}) {
			t.Errorf("ended with %d", codes)
		}
	})
}

// TestKilled: a handler that ignores all is ended after the grace period; its client is told all
// the same.
func TestKilled(t *testing.T) {
	ci.Without(t, invariants.Enabled,
		"a forced EAGAIN takes the last word from a thread that cannot wait")
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, having(new(websocket.Upgrader), func(c *websocket.Conn) {
			c.Thread().KeepWaiting(true)
			_ = c.Thread().Sleep(time.Hour)
		}))
		c := upgrade(s)
		s.Stop(10 * time.Millisecond)
		c.closed(1001)
	})
}

// TestHandlerEnds: what the handler has not closed is closed after it.
func TestHandlerEnds(t *testing.T) {
	const closeWait = 100 * time.Millisecond
	defer websocket.SetCloseWait(closeWait)()
	bothAtOnce(t, func(t *testing.T, m mode) {
		u := new(websocket.Upgrader)
		s := start(t, m, choosing(u, func(req *conn.Request) talk {
			path := req.Path()
			if path == "/panic-with-context" {
				_ = req.Context() // keeps the request
			}
			return talk{open: func(c *websocket.Conn) {
				switch path {
				case "/panic-with-context", "/panic":
					panic("handler")
				case "/abort":
					panic(http.ErrAbortHandler)
				case "/close":
					c.Close(4000, strings.Repeat("é", 100))
					if _, _, err := c.ReadMessage(); !isCode(err, 4000) {
						t.Errorf("after Close: %v", err)
					}
					if err := c.WriteMessage(websocket.Text, nil); !isCode(err, 4000) {
						t.Errorf("after Close: %v", err)
					}
				}
			}}
		}))
		s.Panics.Expect()
		for _, row := range []struct {
			path, answer string
			code         int
			reason       string
		}{
			{"/", bye, 1000, ""},
			{"/", "", 1000, ""}, // nor does a client hold it that does not answer
			{"/", frame(0x82, strings.Repeat("x", 50000)) + frame(0x01, "x") + frame(0x89, "") +
				bye, 1000, ""},
			{"/", frame(0x83, "not a frame"), 1000, ""},
			{"/panic", bye, 1011, ""},
			{"/panic-with-context", bye, 1011, ""},
			{"/abort", bye, 1011, ""},
			{"/", bye, 1000, ""}, // on the same coroutine
			{"/close", bye, 4000, strings.Repeat("é", 61)},
		} {
			began := time.Now()
			c := &client{s.Dial()}
			c.Send(strings.Replace(handshake, "/", row.path, 1) + "\r\n")
			c.answered()
			f, err := c.next()
			if want := string(binary.BigEndian.AppendUint16(nil, uint16(row.code))) +
				row.reason; err != nil || f.first != 0x88 || f.payload != want {
				t.Errorf("%s: %q, %v, want %q", row.path, f, err, want)
			}
			_, _ = io.WriteString(c, row.answer)
			f, err = c.read()
			late := time.Since(began) >= closeWait // so the server may have gone first
			if err != io.EOF && !late && row.answer != frame(0x83, "not a frame") {
				t.Errorf("%s: then %q, %v", row.path, f, err)
			}
			s.Idle()
		}
	})
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*websocket.CloseError](err)
	return ok && e.Code == code
}

// TestKilledWithoutRoom: a connection whose thread is killed while there is no room for a close
// frame keeps nothing.
func TestKilledWithoutRoom(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		agreed := websocket.WindowsAgreed()
		stuffed, boxes := make(chan struct{}), make(chan *websocket.Mailbox, 1)
		u := &websocket.Upgrader{Compression: true, PeerTakeover: true}
		s := start(t, m, having(u, func(c *websocket.Conn) {
			boxes <- c.Mailbox(1000, false)
			websocket.Stuff(c)
			close(stuffed)
			c.Thread().KeepWaiting(true)
			_ = c.Thread().Sleep(time.Hour)
		}))
		c := &client{s.DialSmall()}
		c.Send(handshake + offered + "\r\n")
		<-stuffed
		if websocket.WindowsAgreed() == agreed {
			t.Error("no window")
		}
		s.Stop(time.Millisecond)
		if n := websocket.WindowsAgreed() - agreed; n != 0 {
			t.Errorf("windows of %d bytes are left", n)
		}
		if err := (<-boxes).Send(websocket.Text, nil); err == nil {
			t.Error("the mailbox takes messages")
		}
	})
}
