package websocket_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

// TestTakeoverMemory: an idle connection whose messages have referred to earlier ones takes what
// one without compression takes. The windows of clients are bounded together.
func TestTakeoverMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	const many, before, windows = 1000, 20, 10
	plainly := websocket.Upgrader{}
	own := websocket.Upgrader{Compression: true, Takeover: true}
	both := websocket.Upgrader{Compression: true, Takeover: true, PeerTakeover: true}
	var bare, kept, alone []string // messages that are alike
	packed := packer(t)
	for i := range 4 {
		bare = append(bare, frame(0x81, quotes(i)))
		kept = append(kept, frame(0xc1, packed(quotes(i))))
		alone = append(alone, frame(0xc1, packer(t)(quotes(i))))
	}
	measure := func(u *websocket.Upgrader) int64 {
		s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
			return u.Serve(req, resp, counter{})
		})
		return s.IdleBytes(before, many, 15*time.Second, func(c io.ReadWriter) {
			offer := ""
			if u.Compression {
				offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
			}
			must.Get(io.WriteString(c, handshake+offer+"\r\n"))(t)
			r := bufio.NewReader(c)
			resp := must.Get(http.ReadResponse(r, nil))(t)
			messages := kept
			switch agreed := resp.Header.Get("Sec-WebSocket-Extensions"); {
			case agreed == "":
				messages = bare
			case strings.Contains(agreed, "client_no_context_takeover"):
				messages = alone
			}
			for _, f := range messages {
				must.Get(io.WriteString(c, f))(t)
				passBack(t, r)
			}
		})
	}
	without := measure(&plainly)
	mine := measure(&own)
	defer websocket.LeaveWindows((before + windows) * 32 << 10)()
	all := measure(&both)
	t.Logf("%d bytes; %d with takeover; %d with takeover both ways, %d of %d with a window", without,
		mine, all, windows, many)
	const noise = 100 // 80 KiB of stacks more or less, of 1,000 connections
	if mine > without+noise {
		t.Errorf("an idle connection takes %d bytes with takeover, and %d without compression", mine,
			without)
	}
	if most := without + noise + windows*(33<<10)/many; all > most {
		t.Errorf("an idle connection takes %d bytes with takeover both ways, want %d at most", all, most)
	}
}

// passBack reads one message of the server, of 126 bytes to 64 KiB.
func passBack(t *testing.T, r *bufio.Reader) {
	var head [4]byte
	must.Get(io.ReadFull(r, head[:]))(t)
	if head[1] != 126 || head[0] != 0x81 && head[0] != 0xc1 {
		t.Fatalf("%x", head)
	}
	must.Get(r.Discard(int(binary.BigEndian.Uint16(head[2:]))))(t)
}

// TestPeerWindowsAreBounded: when no room is left for windows of clients, further clients are told
// to compress each message by itself, until one has left.
func TestPeerWindowsAreBounded(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, PeerTakeover: true}))
		restore := websocket.LeaveWindows(40 << 10)
		defer restore()
		agreed := websocket.WindowsAgreed()
		const kept, alone = "permessage-deflate; server_no_context_takeover",
			"permessage-deflate; server_no_context_takeover; client_no_context_takeover"
		connect := func(offer, want string) *client {
			t.Helper()
			c := &client{s.Dial()}
			c.Send(handshake + "Sec-WebSocket-Extensions: permessage-deflate" + offer + "\r\n\r\n")
			if got := c.agreed(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			return c
		}
		leave := func(c *client) {
			c.Send(bye)
			c.closed(1000)
			c.Close()
		}
		first := connect("", kept)
		second := connect("", alone)
		small := connect("; client_max_window_bits=12", kept)
		for range 2 { // by itself it is understood, too
			second.Send(frame(0xc1, packer(t)(quotes(1))))
			second.expect(text(quotes(1)))
		}
		leave(first)
		leave(second)
		leave(small)
		s.Idle()
		if got := websocket.WindowsAgreed(); got != agreed {
			t.Errorf("%d bytes of windows are agreed upon after the end", got-agreed)
		}
		third := connect("", kept)
		third.Close() // without a word
		s.Idle()
		if got := websocket.WindowsAgreed(); got != agreed {
			t.Errorf("%d bytes of windows are agreed upon after a loss", got-agreed)
		}
	})
}
