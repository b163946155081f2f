package websocket_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	kflate "github.com/klauspost/compress/flate"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/must"
)

// quotes is JSON of some 1 KiB, of which each i makes another one that is alike.
func quotes(i int) string {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"quotes","id":%d,"items":[`, r.Uint32())
	for b.Len() < 950 {
		fmt.Fprintf(&b,
			`{"symbol":"%c%c%c","price":%d.%02d,"volume":%d,"time":"2026-11-27T17:%02d:%02dZ"},`,
			'A'+r.IntN(26), 'A'+r.IntN(26), 'A'+r.IntN(26), r.IntN(900), r.IntN(100), r.IntN(100000),
			r.IntN(60), r.IntN(60))
	}
	return b.String() + "{}]}"
}

// keeper inflates messages that refer to earlier ones.
type keeper struct{ got []byte }

func (k *keeper) inflate(t *testing.T, p string) string {
	t.Helper()
	dict := k.got[max(len(k.got)-32<<10, 0):]
	out := must.Get(io.ReadAll(flate.NewReaderDict(
		strings.NewReader(p+"\x00\x00\xff\xff\x01\x00\x00\xff\xff"), dict)))(t)
	k.got = append(k.got, out...)
	return string(out)
}

// TestTakeover: messages that are alike are shorter if they refer to earlier ones, and a peer that
// keeps 32 KiB can read them all, among prepared and uncompressed ones, and ones longer than its
// window.
func TestTakeover(t *testing.T) {
	var want []string
	for i := range 60 {
		want = append(want, quotes(i))
	}
	want = append(want, "short", strings.Repeat("0123456789 long ", 3000), quotes(3), quotes(1000))
	both(t, func(t *testing.T, m mode) {
		speak := func(c *websocket.Conn) {
			for i, text := range want {
				kind := websocket.Text
				switch i % 10 {
				case 7:
					kind |= websocket.Uncompressed
				case 8:
					p := must.Get(websocket.Prepare(websocket.Text, []byte(text)))(t)
					if err := c.WritePrepared(p); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := c.WriteMessage(kind, []byte(text)); err != nil {
					t.Error(err)
				}
			}
		}
		with := having(&websocket.Upgrader{Compression: true, Takeover: true}, speak)
		without := having(&websocket.Upgrader{Compression: true}, speak)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			if req.Path() == "/takeover" {
				return with(req, resp)
			}
			return without(req, resp)
		})
		for _, row := range []struct {
			path, offer, answer string
			takeover            bool
		}{
			{"/takeover", "", "; client_no_context_takeover", true},
			{"/takeover", "; server_max_window_bits=15",
				"; server_max_window_bits=15; client_no_context_takeover", true},
			{"/takeover", "; server_no_context_takeover",
				"; server_no_context_takeover; client_no_context_takeover", false},
			{"/", "", "; server_no_context_takeover; client_no_context_takeover", false},
		} {
			c := &client{s.Dial()}
			c.Send(strings.Replace(handshake, "/", row.path, 1) +
				"Sec-WebSocket-Extensions: permessage-deflate" + row.offer + "\r\n\r\n")
			if got, want := c.agreed(), "permessage-deflate"+row.answer; got != want {
				t.Errorf("%s offered, answered %s, want %s", row.offer, got, want)
			}
			sent, all := 0, 0
			var k keeper
			for i, w := range want {
				f := must.Get(c.read())(t)
				got := f.payload
				if f.first&0x40 != 0 {
					if !row.takeover {
						k = keeper{}
					}
					got = k.inflate(t, got)
				}
				if got != w || f.first&0x40 == 0 != (i%10 == 7 || w == "short") {
					t.Fatalf("%s%s, message %d: %x, %.100q", row.path, row.offer, i, f.first, got)
				}
				if i > 20 && i < 60 && i%10 < 7 {
					sent, all = sent+len(f.payload), all+len(w)
				}
			}
			t.Logf("%s%s: %.2f of the bytes", row.path, row.offer, float64(sent)/float64(all))
			if share := float64(sent) / float64(all); row.takeover && share > 0.30 ||
				!row.takeover && share < 0.31 {
				t.Errorf("%s%s: %.2f of the bytes", row.path, row.offer, share)
			}
			c.Send(bye)
			c.closed(1000)
		}
	})
}

// agreed reads the answer to the handshake, and returns what it says of extensions.
func (c *client) agreed() string {
	c.T.Helper()
	head := c.head()
	return head.Get("Sec-WebSocket-Extensions")
}

// TestPeerTakeover: what a client refers to is kept, as much as its window, if that was agreed
// upon.
func TestPeerTakeover(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, PeerTakeover: true}))
		for offer, size := range map[string]int{"": 32 << 10, "; client_max_window_bits": 32 << 10,
			"; client_max_window_bits=9": 512, "; client_max_window_bits=12": 4 << 10} {
			c := &client{s.Dial()}
			c.Send(handshake + "Sec-WebSocket-Extensions: permessage-deflate" + offer + "\r\n\r\n")
			if got := c.agreed(); got != "permessage-deflate; server_no_context_takeover" {
				t.Errorf("%s: %s", offer, got)
			}
			var packed bytes.Buffer
			w := must.Get(kflate.NewWriterWindow(&packed, size))(t)
			for i := range 100 {
				message := quotes(i % 7)
				packed.Reset()
				_, _ = io.WriteString(w, message)
				_ = w.Flush()
				p := strings.TrimSuffix(packed.String(), "\x00\x00\xff\xff")
				switch i % 3 {
				case 0:
					c.Send(frame(0xc1, p))
				case 1:
					c.Send(frame(0x41, p[:5]))
					s.Settle()
					c.Send(frame(0x00, p[5:7]) + frame(0x80, p[7:]))
				case 2: // what is not compressed does not count
					c.Send(frame(0x81, "plain") + frame(0xc1, p))
					c.expect(text("plain"))
				}
				c.expect(text(message))
			}
			c.Send(bye)
			c.closed(1000)
		}
	})
}

// TestWindowIsGivenUp: an idle connection keeps nothing of what it has sent, and goes on without.
func TestWindowIsGivenUp(t *testing.T) { both(t, windowIsGivenUp) }

func windowIsGivenUp(t *testing.T, m mode) {
	held := websocket.WindowsHeld
	s := start(t, m, echo(&websocket.Upgrader{Compression: true, Takeover: true}))
	before := held()
	c := &client{s.Dial()}
	c.Send(handshake + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	c.agreed()
	var k keeper
	for range 3 {
		for i := range 3 {
			c.Send(frame(0x81, quotes(i)))
			f, err := c.read()
			if err != nil || k.inflate(t, f.payload) != quotes(i) {
				t.Fatal(f, err)
			}
		}
		if n := held() - before; n != 1 {
			t.Errorf("%d windows are held", n)
		}
		s.Settle()
		s.Skip(15 * time.Second)
		s.Settle()
		if n := held() - before; n != 0 {
			t.Errorf("%d windows are held after a silence", n)
		}
	}
	c.Send(frame(0x81, quotes(1)))
	_, _ = c.read()
	c.Close()
	s.Idle()
	if n := held() - before; n != 0 {
		t.Errorf("%d windows are held after the end", n)
	}
}

// packer returns a client's compressor, whose messages refer to earlier ones.
func packer(t *testing.T) func(string) string {
	var b bytes.Buffer
	w := must.Get(flate.NewWriter(&b, 6))(t)
	return func(s string) string {
		b.Reset()
		_, _ = io.WriteString(w, s)
		_ = w.Flush()
		return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
	}
}

// TestWindowOfAnOpenWriter: the window stays the connection's as long as a message is written, and
// from then on until a silence.
func TestWindowOfAnOpenWriter(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		held := websocket.WindowsHeld
		before := held()
		var w io.WriteCloser
		act := func(c *websocket.Conn, p string) {
			switch p {
			case "begin":
				w = must.Get(c.NextWriter(websocket.Text))(t)
				_, _ = io.WriteString(w, quotes(1))
			case "go on":
				_, _ = io.WriteString(w, quotes(2))
				_ = w.Close()
			default:
				_ = c.WriteMessage(websocket.Text, []byte(p))
			}
		}
		u := &websocket.Upgrader{Compression: true, Takeover: true}
		s := start(t, m,
			talking(u, talk{message: func(c *websocket.Conn, _ int, p []byte) { act(c, string(p)) }}))
		c := upgrade(s, "Sec-WebSocket-Extensions: permessage-deflate\r\n")
		var k keeper
		expect := func(want string) {
			t.Helper()
			all := ""
			for fin := false; !fin; {
				f := must.Get(c.read())(t)
				all += f.payload
				fin = f.first&0x80 != 0
			}
			if got := k.inflate(t, all); got != want {
				t.Errorf("got %.100q", got)
			}
		}
		c.Send(frame(0x81, quotes(0)))
		expect(quotes(0))
		c.Send(frame(0x81, "begin"))
		s.Settle()
		s.Skip(15 * time.Second)
		if n := held() - before; n != 1 {
			t.Errorf("%d windows are held while a message is written", n)
		}
		c.Send(frame(0x81, "go on"))
		expect(quotes(1) + quotes(2))
		c.Send(frame(0x81, quotes(3)))
		expect(quotes(3))
		s.Skip(15 * time.Second)
		if n := held() - before; n != 0 {
			t.Errorf("%d windows are held after a silence", n)
		}
		c.Send(bye)
		c.closed(1000)
		c.Close()
		s.Idle()
	})
}
