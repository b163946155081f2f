package websocket_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// FuzzClient sends whatever comes to its mind behind a good handshake, in two pieces, and nothing
// more. The server has to come to an end, with frames that are well-formed, a close as the last of
// them, if it sends one, and the messages that it sends back are UTF-8. In both styles the same
// comes.
func FuzzClient(f *testing.F) {
	for _, r := range rows {
		if len(r.raw) < 1000 {
			f.Add([]byte(r.raw), uint16(3), false)
		}
	}
	for _, r := range compressed {
		if len(r.raw) < 1000 {
			f.Add([]byte(r.raw), uint16(9), true)
		}
	}
	u := &websocket.Upgrader{Compression: true, ReadLimit: maxMessage}
	whole, parts := echo(u), streamed(u)
	h := func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/parts" {
			return parts(req, resp)
		}
		return whole(req, resp)
	}
	s, served := start(f, direct, h), start(f, serving(direct), h)
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16, deflate bool) {
		one, reset := sent(t, s, raw, cut, deflate)
		other, resetToo := sent(t, served, raw, cut, deflate)
		if !reset && !resetToo && !slices.Equal(one, other) { // a reset may take the last frames away
			t.Errorf("%x: got %q, under Serve %q", raw, one, other)
		}
	})
	s.Idle()
	served.Idle()
}

// sent sends raw, as FuzzClient says, and returns what comes.
func sent(t *testing.T, s *site, raw []byte, cut uint16,
	deflate bool) (got []received, reset bool) {
	t.Helper()
	nc := must.Dial(t, "tcp", s.Addr)
	defer nc.Close()
	c := &client{server.NewClient(t, nc)}
	fields := ""
	if deflate {
		fields = offered
	}
	hello := handshake
	if cut%2 == 1 {
		hello = strings.Replace(handshake, "/", "/parts", 1)
	}
	c.Send(hello + fields + "\r\n")
	c.answered()
	at := min(int(cut), len(raw))
	for _, p := range [][]byte{raw[:at], raw[at:]} {
		if _, err := c.Write(p); err != nil {
			break
		}
		loops.Settle(t, s.All...)
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	for ended := false; ; {
		m, err := c.next()
		if err != nil {
			if err != io.EOF && !strings.Contains(err.Error(), "connection reset") ||
				errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%x: %v", raw, err)
			}
			return got, err != io.EOF
		}
		switch {
		case ended:
			t.Fatalf("%x: %q after the close", raw, m)
		case m.first == 0x88 && len(m.payload) != 1 && len(m.payload) <= 125:
			ended = true
		case m.first == 0x8a && len(m.payload) <= 125, m.first == 0x82, m.first == 0x81 &&
			utf8.ValidString(m.payload):
		default:
			t.Fatalf("%x: got %x, %q", raw, m.first, m.payload)
		}
		got = append(got, m)
	}
}

// FuzzServer is FuzzClient for the other end: whatever a server sends, a client that has dialed
// comes to its end, with text that is UTF-8, and without a message longer than it permits.
func FuzzServer(f *testing.F) {
	for _, r := range slices.Concat(rows, compressed) {
		if raw := []byte(r.raw); len(raw) < 1000 {
			f.Add(raw, uint16(3)) // masked, which is refused
			if len(raw) > 6 && raw[1] >= 0x80 && raw[1] < 0x80+126 {
				raw[1] &^= 0x80
				f.Add(append(raw[:2:2], raw[6:]...), uint16(2))
			}
		}
	}
	ls := loops.Start(f, direct, nil, nil)
	url := accepts(f, func(c net.Conn, key string) {
		_, _ = io.WriteString(c,
			"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"+
				"Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Accept: "+
				websocket.AcceptKey(key)+"\r\n\r\n"+<-toSend)
		_, _ = io.WriteString(c, <-toSend)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	d := websocket.Dialer{Compression: true, PeerTakeover: true, ReadLimit: maxMessage}
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		at := min(int(cut), len(raw))
		go func() { toSend <- string(raw[:at]); toSend <- string(raw[at:]) }()
		ended := make(chan error, 1)
		talk := func(th *loop.Thread) {
			c, _, err := d.Dial(th, wait.Patience, url)
			if err != nil {
				ended <- err
				return
			}
			for n := int(cut); err == nil; n++ {
				var kind int
				var p []byte
				var r io.Reader
				switch n % 3 {
				case 0:
					kind, p, err = c.ReadMessage()
				case 1:
					if kind, r, err = c.NextReader(); err == nil {
						p, err = io.ReadAll(r)
					}
				case 2: // most of it is dropped
					if _, r, err = c.NextReader(); err == nil {
						_, _ = r.Read(make([]byte, 3))
					}
				}
				if err == nil && (len(p) > maxMessage || kind == websocket.Text && !utf8.Valid(p)) {
					t.Errorf("%x: message %d, %q", raw, kind, p)
				}
			}
			_ = c.Close(websocket.NormalClosure, "")
			ended <- err
		}
		must.Do(t, ls.All[0].Post(func() { ls.All[0].Go(talk) }))
		if err := <-ended; !isClose(err) {
			t.Errorf("%x: %v", raw, err)
		}
	})
}

// toSend is what the server of FuzzServer sends.
var toSend = make(chan string)
