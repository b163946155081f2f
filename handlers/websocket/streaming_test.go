package websocket_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// streamed is an echo that reads and writes messages in pieces.
func streamed(u *websocket.Upgrader) conn.Handler {
	return having(u, func(c *websocket.Conn) {
		for {
			kind, r, err := c.NextReader()
			if err != nil {
				return
			}
			p, err := io.ReadAll(r)
			if err != nil || inPieces(c, kind, p) != nil {
				return
			}
		}
	})
}

// inPieces sends a message in fragments.
func inPieces(c *websocket.Conn, kind int, p []byte) error {
	w, err := c.NextWriter(kind)
	if err != nil {
		return err
	}
	for piece := 1; len(p) > 0; piece *= 7 {
		n := min(piece, len(p))
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return w.Close()
}

// TestProtocolStreamed: the tables of raw bytes, for readers and writers of messages.
func TestProtocolStreamed(t *testing.T) {
	t.Parallel()
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, streamed(&websocket.Upgrader{Compression: true, ReadLimit: maxMessage}))
		for _, table := range []struct {
			fields string
			rows   []row
		}{{"", rows}, {offered, compressed}} {
			for _, r := range table.rows {
				check(s, r, table.fields, r.raw)
				step := 3 + len(r.raw)/30
				if !ci.Enabled() && m.TLS { // where a row is cut is the same to readers of both
					step *= 4
				}
				for i := 1; i < len(r.raw); i += step {
					check(s, r, table.fields, r.raw[:i], r.raw[i:])
				}
			}
		}
	}, direct, overTLS, serving(direct), serving(overTLS))
}

// TestReaderIsDropped: what a program does not read of a message is passed over, and with takeover
// it still counts. Text is checked all the same.
func TestReaderIsDropped(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{Compression: true, PeerTakeover: true, ReadLimit: 1 << 20}
		ends := make(chan error, 1)
		s := start(t, m, having(u, func(c *websocket.Conn) {
			for {
				kind, r, err := c.NextReader()
				if err != nil {
					ends <- err
					return
				}
				var b [5]byte
				n, err := io.ReadFull(r, b[:])
				if err != nil {
					ends <- err
					return
				}
				_, p, err := c.ReadMessage()
				if err != nil {
					ends <- err
					return
				}
				if _, err := r.Read(b[:]); err == nil || err == io.EOF {
					t.Errorf("a reader of the message before: %v", err)
				}
				_ = c.WriteMessage(kind, append(b[:n], p...))
			}
		}))
		long := strings.Repeat("a long message ", 5000)
		c := upgrade(s)
		c.Send(frame(0x01, long) + frame(0x89, "p") + frame(0x80, long) + frame(0x81, "!"))
		c.expect(pong("p"), text("a lon!"))
		c.Send(frame(0x01, long+"\xff") + frame(0x80, long) + frame(0x81, "!"))
		c.closed(1007)
		if got := code(t, ends); got != 1007 {
			t.Errorf("ended with %d", got)
		}
		c = upgrade(s, offered)
		p := packer(t)
		c.Send(frame(0xc1, p(long)) + frame(0xc1, p("a long message again")))
		c.expect(text("a lona long message again"))
		c.Send(bye)
		c.closed(1000)
		_ = code(t, ends)
	})
}

// TestReaderHasNoLimitOfMemory: a message that is longer than any buffer is read and written in
// pieces while it comes.
func TestReaderHasNoLimitOfMemory(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		u := &websocket.Upgrader{Compression: true}
		s := start(t, m, having(u, func(c *websocket.Conn) {
			c.SetReadLimit(-1)
			kind, r, err := c.NextReader()
			if err != nil {
				t.Error(err)
				return
			}
			w := must.Get(c.NextWriter(kind))(t)
			if err := c.WriteMessage(websocket.Text, nil); err == nil {
				t.Error("a message within a message was written")
			}
			if _, err := c.NextWriter(kind); err == nil {
				t.Error("two writers are open")
			}
			must.Get(io.Copy(w, r))(t)
			must.Do(t, w.Close())
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("written after Close")
			}
		}))
		want := strings.Repeat("0123456789abcdef", 3<<20/16)
		for _, fields := range []string{"", offered} {
			c := upgrade(s, fields)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if fields == "" {
					_, _ = io.WriteString(c, frame(0x01, want[:1<<20])+frame(0x00, want[1<<20:2<<20])+
						frame(0x80, want[2<<20:])+bye)
				} else {
					_, _ = io.WriteString(c, frame(0xc1, packed(want))+bye)
				}
			}()
			c.expect(text(want))
			c.closed(1000)
			<-done
		}
	})
}

// TestReadDeadline: one that passes between messages does no harm; within one it ends the
// connection.
func TestReadDeadline(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		u, ends := new(websocket.Upgrader), make(chan error, 1)
		s := start(t, m, having(u, func(c *websocket.Conn) {
			var err error
			for range 2 {
				c.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, _, err := c.ReadMessage(); !errors.Is(err, loop.ErrDeadlineExceeded) {
					t.Error(err)
				}
			}
			c.SetReadDeadline(time.Time{})
			_ = c.WriteMessage(websocket.Text, []byte("go on"))
			if _, p, err := c.ReadMessage(); string(p) != "a" {
				t.Error(err)
			}
			// before it has begun
			for err = loop.ErrDeadlineExceeded; errors.Is(err, loop.ErrDeadlineExceeded); {
				c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
				_, _, err = c.ReadMessage()
			}
			ends <- err
		}))
		c := upgrade(s)
		c.expect(text("go on"))
		c.Send(frame(0x81, "a") + frame(0x01, "b"))
		c.closed(1008)
		if got := code(t, ends); got != 1008 {
			t.Errorf("ended with %d", got)
		}
	})
}

// TestRoundTrip: the answer to a Ping is timed, and no other pong.
func TestRoundTrip(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, having(new(websocket.Upgrader), func(c *websocket.Conn) {
			must.Do(t, c.Ping())
			for {
				_, p, err := c.ReadMessage()
				if err != nil {
					return
				}
				_ = c.WriteMessage(websocket.Text,
					fmt.Append(p, c.RoundTrip() > 0, c.RoundTrip() < time.Minute))
			}
		}))
		c := upgrade(s)
		f, err := c.next()
		if err != nil || f.first != 0x89 || len(f.payload) != 8 {
			t.Fatal(f, err)
		}
		c.Send(frame(0x8a, "") + frame(0x8a, "12345678") + frame(0x81, "1 "))
		c.expect(text("1 false true"))
		c.Send(frame(0x8a, f.payload) + frame(0x81, "2 "))
		c.expect(text("2 true true"))
	})
}

// TestJSON: values come and go; what is no JSON is an error of the value and not of the connection.
func TestJSON(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, having(new(websocket.Upgrader), func(c *websocket.Conn) {
			for {
				var v struct{ N int }
				switch err := c.ReadJSON(&v); {
				case isClose(err):
					return
				case err != nil:
					_ = c.WriteJSON(map[string]string{"error": "no JSON"})
				default:
					_ = c.WriteJSON(map[string]int{"n": v.N + 1})
				}
				if err := c.WriteJSON(func() {}); err == nil {
					t.Error("a function was written")
				}
			}
		}))
		c := upgrade(s)
		c.Send(frame(0x81, `{"n":1}`) + frame(0x81, `{`) + frame(0x81, `{"n":7}`) + bye)
		c.expect(text(`{"n":2}`), text(`{"error":"no JSON"}`), text(`{"n":8}`))
		c.closed(1000)
	})
}

func isClose(err error) bool {
	_, ok := errors.AsType[*websocket.CloseError](err)
	return ok
}

// FuzzUTF8: text in parts is UTF-8 if it is as a whole, and is refused as soon as it cannot be.
func FuzzUTF8(f *testing.F) {
	f.Add([]byte("a\xe2\x82\xac\xf0\x9f\x98\x80"), uint16(0x4321))
	f.Add([]byte("\xed\xa0\x80"), uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, cuts uint16) { websocket.CheckUTF8(t, p, cuts) })
}
