package websocket_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// echoed sends messages of all sizes over c, which must come back.
func echoed(t *testing.T, c *websocket.Conn) {
	t.Helper()
	for _, size := range []int{0, 1, 125, 126, 4081, 4082, 4090, 4096, 8192, 65535, 65536, 300000} {
		for _, kind := range []int{websocket.Text, websocket.Binary | websocket.Uncompressed} {
			want := strings.Repeat("message ", size/8+1)[:size]
			if err := c.WriteMessage(kind, []byte(want)); err != nil {
				t.Errorf("message of %d bytes: %v", size, err)
				return
			}
			if k, p, err := c.ReadMessage(); err != nil || k != kind&0xf || string(p) != want {
				t.Errorf("message of %d bytes: %d bytes, kind %d, %v", size, len(p), k, err)
				return
			}
		}
	}
	for _, size := range []int{0, 121, 122, 125, 126, 300, 65535, 70000} {
		want := strings.Repeat("prepared ", size/9+1)[:size]
		p := must.Get(websocket.Prepare(websocket.Text, []byte(want)))(t)
		must.Do(t, c.WritePrepared(p))
		if _, p, err := c.ReadMessage(); err != nil || string(p) != want {
			t.Errorf("prepared message of %d bytes: %d bytes, %v", size, len(p), err)
			return
		}
	}
	w := must.Get(c.NextWriter(websocket.Text))(t)
	for i := range 2000 {
		_, _ = fmt.Fprintf(w, "%d, ", i)
	}
	must.Do(t, w.Close())
	if _, p, err := c.ReadMessage(); err != nil || !strings.HasSuffix(string(p), "1998, 1999, ") {
		t.Errorf("a message of fragments: %d bytes, %v", len(p), err)
	}
}

// TestDial: both ends are ours, with all that can be agreed on.
func TestDial(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		for _, row := range []struct {
			u websocket.Upgrader
			d websocket.Dialer
		}{
			{websocket.Upgrader{}, websocket.Dialer{}},
			{websocket.Upgrader{}, websocket.Dialer{Compression: true, Takeover: true, PeerTakeover: true}},
			{websocket.Upgrader{Compression: true}, websocket.Dialer{Compression: true}},
			{websocket.Upgrader{Compression: true, Takeover: true},
				websocket.Dialer{Compression: true, PeerTakeover: true}},
			{websocket.Upgrader{Compression: true, PeerTakeover: true},
				websocket.Dialer{Compression: true, Takeover: true}},
			{websocket.Upgrader{Compression: true, Takeover: true, PeerTakeover: true, CompressionLevel: 6},
				websocket.Dialer{Compression: true, Takeover: true, PeerTakeover: true, CompressionLevel: 9}},
		} {
			u, d := &row.u, &row.d
			u.ReadLimit, d.ReadLimit = 1<<20, 1<<20
			u.Subprotocols, d.Subprotocols = []string{"b", "c"}, []string{"a", "b"}
			d.Header = http.Header{"X-Name": {"value"}, "Host": {"example.org"},
				"Origin": {"https://example.org"}}
			d.TLS = &tls.Config{InsecureSkipVerify: true}
			ends := make(chan error, 1)
			serve := ending(u, ends)
			s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
				if req.Header().Get("X-Name") != "value" || req.Host() != "example.org" ||
					req.RawQuery() != "q=1" {
					t.Errorf("%s %s", req.Host(), req.RawQuery())
				}
				resp.Header().Set("X-Answer", "here")
				return serve(req, resp)
			})
			scheme := "ws"
			if m.TLS {
				scheme = "wss"
			}
			loops.Run(t, func(th *loop.Thread) {
				c, answer, err := d.Dial(th, wait.Patience, scheme+"://"+s.Addr+"/path?q=1")
				if err != nil {
					t.Error(err)
					return
				}
				if c.Subprotocol() != "b" || answer.Get("X-Answer") != "here" {
					t.Errorf("%s, %s", c.Subprotocol(), answer)
				}
				echoed(t, c)
				must.Do(t, c.Close(4000, "done"))
				if err := c.WriteMessage(websocket.Text, nil); !isCode(err, 4000) {
					t.Errorf("after Close: %v", err)
				}
			})
			if got := code(t, ends); got != 4000 {
				t.Errorf("ended with %d", got)
			}
			s.Idle()
		}
	}, plain, direct, overTLS)
}

// TestDialGorilla: the other end is gorilla's.
func TestDialGorilla(t *testing.T) {
	u := gorilla.Upgrader{EnableCompression: true, Subprotocols: []string{"p"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := u.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, p, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, p) != nil {
				return
			}
		}
	}))
	defer s.Close()
	for _, d := range []websocket.Dialer{{}, {Compression: true, Takeover: true, PeerTakeover: true}} {
		d.ReadLimit, d.Subprotocols = 1<<20, []string{"p"}
		loops.Run(t, func(th *loop.Thread) {
			c, _, err := d.Dial(th, wait.Patience, strings.Replace(s.URL, "http", "ws", 1))
			if err != nil {
				t.Error(err)
				return
			}
			echoed(t, c)
			must.Do(t, c.Close(websocket.NormalClosure, ""))
		})
	}
}

// accepts listens, and gives each client of its a handler that has read the request.
func accepts(t testing.TB, h func(c net.Conn, key string)) (url string) {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				h(c, req.Header.Get("Sec-WebSocket-Key"))
			}
			c.Close()
		}
	}()
	return "ws://" + ln.Addr().String()
}

// TestDialRefused: answers that make no WebSocket, and why.
func TestDialRefused(t *testing.T) {
	const good = "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
	accept := func(key string) string {
		return "Sec-WebSocket-Accept: " + websocket.AcceptKey(key) + "\r\n"
	}
	for _, row := range []struct {
		answer func(key string) string
		status int
		why    string
	}{
		{func(key string) string {
			return "HTTP/1.1 103 Early\r\n\r\n" + good + accept(key) + "\r\n\x88\x02\x03\xe8"
		}, 101, ""},
		{func(string) string { return "HTTP/1.1 302 Found\r\nLocation: wss://example.org/\r\n\r\n" }, 302,
			"points to wss://example.org/"},
		{func(string) string { return "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n" }, 401,
			"answers 401 No"},
		{func(string) string { return good + "\r\n" }, 101, "Sec-WebSocket-Accept"},
		{func(string) string { return good + accept("x") + "\r\n" }, 101, "Sec-WebSocket-Accept"},
		{func(key string) string { return good + accept(key) + accept(key) + "\r\n" }, 101,
			"Sec-WebSocket-Accept"},
		{func(key string) string {
			return strings.Replace(good, "websocket", "h2c", 1) + accept(key) + "\r\n"
		}, 101, "something else"},
		{func(key string) string { return good + accept(key) + "Sec-WebSocket-Protocol: x\r\n\r\n" }, 101,
			"subprotocol"},
		{func(key string) string { return good + accept(key) + "Sec-WebSocket-Extensions: x\r\n\r\n" },
			101, "extension"},
		{func(key string) string {
			return good + accept(key) +
				"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=9\r\n\r\n"
		}, 101, "extension"},
		{func(key string) string {
			return good + accept(key) +
				"Sec-WebSocket-Extensions: permessage-deflate; " +
				"server_max_window_bits=10\r\n\r\n\x88\x02\x03\xe8"
		}, 101, ""},
		{func(string) string { return "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70000) }, 0,
			"longer than"},
		{func(string) string { return "HTTP/1.1 101 Swi" }, 0, "EOF"},
		{func(string) string { return "SSH-2.0\r\n\r\n" }, 0, "malformed"},
	} {
		url := accepts(t, func(c net.Conn, key string) {
			_, _ = io.WriteString(c, row.answer(key))
			_, _ = io.Copy(io.Discard, c)
		})
		if row.why == "EOF" {
			url = accepts(t, func(c net.Conn, key string) { _, _ = io.WriteString(c, row.answer(key)) })
		}
		loops.Run(t, func(th *loop.Thread) {
			d := websocket.Dialer{Compression: true}
			c, _, err := d.Dial(th, wait.Patience, url)
			if row.why == "" {
				if err == nil {
					_, _, err = c.ReadMessage()
					_ = c.Close(1000, "")
				}
				if !isCode(err, 1000) {
					t.Error(err)
				}
				return
			}
			if c != nil || err == nil || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%v, want %s", err, row.why)
			}
			e, ok := errors.AsType[*websocket.HandshakeError](err)
			if ok != (row.status != 0) || ok && e.Status != row.status {
				t.Errorf("%s: %v", row.why, err)
			}
		})
	}
}

// TestDialWrong: addresses and fields that no server is asked with, and servers that do not answer.
func TestDialWrong(t *testing.T) {
	mute := accepts(t, func(c net.Conn, _ string) { _, _ = io.Copy(io.Discard, c) })
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	for _, row := range []struct {
		d        websocket.Dialer
		url, why string
	}{
		{websocket.Dialer{}, "http://127.0.0.1/", "not ws or wss"},
		{websocket.Dialer{}, "ws:///path", "no host"},
		{websocket.Dialer{}, "ws://user@127.0.0.1/", "user"},
		{websocket.Dialer{}, "ws://127.0.0.1/#x", "fragment"},
		{websocket.Dialer{Header: http.Header{"Upgrade": {"x"}}}, mute, "Upgrade"},
		{websocket.Dialer{Header: http.Header{"X": {"a\r\nb"}}}, mute, `"X"`},
		{websocket.Dialer{Subprotocols: []string{"a b"}}, mute, "not a token"},
		{websocket.Dialer{}, mute, "i/o timeout"},
		{websocket.Dialer{}, strings.Replace(mute, "ws:", "wss:", 1), "tls handshake"},
		{websocket.Dialer{}, "ws://" + closed.Addr().String(), "refused"},
	} {
		loops.Run(t, func(th *loop.Thread) {
			limit := wait.Patience
			if row.why == "i/o timeout" {
				limit = 30 * time.Millisecond
			}
			_, _, err := row.d.Dial(th, limit, row.url)
			if err == nil || !strings.Contains(err.Error(), row.why) ||
				row.why == "i/o timeout" && !errors.Is(err, loop.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want %s", row.url, err, row.why)
			}
		})
	}
}

// TestBadServer: what a server must not send ends the client's connection, with the code that says
// so.
func TestBadServer(t *testing.T) {
	for _, row := range []struct {
		raw  string
		want string // messages
		code int
	}{
		{unmasked(0x81, "a") + unmasked(0x89, "p") + unmasked(0x82, "b") + unmasked(0x88, "\x03\xe8"),
			"ab", 1000},
		{unmasked(0x01, "a") + unmasked(0x00, "b") + unmasked(0x80, "c") + unmasked(0x88, ""), "abc",
			1005},
		{frame(0x81, "masked"), "", 1002},
		{unmasked(0x81, "a") + unmasked(0x83, ""), "a", 1002},
		{unmasked(0x80, "a"), "", 1002},
		{unmasked(0x81, "\xff"), "", 1007},
		{"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x01", "", 1009},
		{"\x82\x7f\x80\x00\x00\x00\x00\x01\x00\x01", "", 1002},
		{unmasked(0xc1, "a"), "", 1002},
		{unmasked(0x88, "\x03"), "", 1002},
		{unmasked(0x81, "abc")[:4], "", 1006},
		{"", "", 1006},
	} {
		for cut := 0; cut <= len(row.raw); cut += 1 + len(row.raw)/4 {
			url := accepts(t, func(c net.Conn, key string) {
				_, _ = io.WriteString(c,
					"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"+
						"Sec-WebSocket-Accept: "+websocket.AcceptKey(key)+"\r\n\r\n"+row.raw[:cut])
				_, _ = io.WriteString(c, row.raw[cut:])
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			})
			loops.Run(t, func(th *loop.Thread) {
				c, _, err := websocket.Dial(th, wait.Patience, url)
				if err != nil {
					t.Error(err)
					return
				}
				got := ""
				for {
					_, p, err := c.ReadMessage()
					if err != nil {
						if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != row.code {
							t.Errorf("%q: %v, want %d", row.raw, err, row.code)
						}
						break
					}
					got += string(p)
				}
				if got != row.want {
					t.Errorf("%q: got %q", row.raw, got)
				}
				_ = c.Close(1000, "")
			})
		}
	}
}

// TestNetConn: bytes pass through messages, in whatever pieces, up to an end in order.
func TestNetConn(t *testing.T) {
	const size = 300 << 10
	s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
		c, err := new(websocket.Upgrader).Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		nc := c.NetConn(websocket.Binary)
		if n, err := io.Copy(nc, nc); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		must.Do(t, nc.Close())
		return 0
	})
	loops.Run(t, func(th *loop.Thread) {
		c, _, err := websocket.Dial(th, wait.Patience, "ws://"+s.Addr)
		if err != nil {
			t.Error(err)
			return
		}
		nc := c.NetConn(websocket.Binary)
		want := strings.Repeat("0123456789", size/10)
		for sent, got := 0, 0; got < size; {
			if sent < size {
				n := min(size-sent, 30000)
				must.Get(io.WriteString(nc, want[sent:sent+n]))(t)
				sent += n
			}
			b := make([]byte, 7001)
			n := must.Get(nc.Read(b))(t)
			if string(b[:n]) != want[got:got+n] {
				t.Errorf("wrong bytes at %d", got)
			}
			got += n
		}
		_ = nc.SetDeadline(time.Now().Add(time.Millisecond))
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, loop.ErrDeadlineExceeded) {
			t.Errorf("a deadline: %v", err)
		}
		_ = nc.SetDeadline(time.Time{})
		must.Do(t, nc.Close())
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after Close: %v", err)
		}
	})
	s.Idle()
}

// TestRelay: a handler that dials another server and passes on both directions, with a thread for
// each connection and mailboxes between them. When one connection ends, so does the other.
func TestRelay(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		behind := start(t, direct, ending(new(websocket.Upgrader), ends))
		u := new(websocket.Upgrader)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			c, err := u.Upgrade(req, resp)
			if err != nil {
				return websocket.Status(err)
			}
			box := c.Mailbox(1<<20, true)
			dialed := new(loop.Promise[*websocket.Mailbox])
			gone := new(loop.Promise[error])
			req.Go(func(th *loop.Thread) error {
				up, _, err := websocket.Dial(th, wait.Patience, "ws://"+behind.Addr)
				if err != nil {
					dialed.Reject(err)
					return nil
				}
				defer up.Close(websocket.GoingAway, "")
				dialed.Resolve(up.Mailbox(1<<20, true))
				for {
					kind, p, err := up.ReadMessage()
					if err == nil {
						err = box.Send(kind, p)
					}
					if err != nil {
						gone.Resolve(err)
						return nil
					}
				}
			})
			up, err := dialed.Await(req.Thread, -1)
			for err == nil {
				var i int
				if i, err = c.AwaitAny(-1, c, gone); err != nil || i == 1 {
					break
				}
				var kind int
				var p []byte
				if kind, p, err = c.ReadMessage(); err == nil {
					err = up.Send(kind, p)
				}
			}
			req.Cancel()
			return 0
		})
		for range 2 {
			c := upgrade(s)
			for i := range 20 {
				want := strings.Repeat("x", i*i*10)
				c.Send(frame(0x81, want))
				c.expect(text(want))
			}
			c.Send(frame(0x89, "p"))
			c.expect(pong("p"))
			c.Send(bye)
			c.closed(1000)
			if got := code(t, ends); got != websocket.GoingAway && got != websocket.Abnormal {
				t.Errorf("ended with %d", got)
			}
		}
		c := upgrade(s)
		c.Send(frame(0x81, "a"))
		c.expect(text("a"))
		go behind.Stop(wait.Patience)
		if f, err := c.next(); err != nil || f.first != 0x88 {
			t.Error(f, err)
		}
		c.Send(bye)
		s.Idle()
	}, plain, overTLS)
}
