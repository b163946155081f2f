package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

const upgrade2 = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// TestHTTP2Tunnel: an extended CONNECT is the request that opens a WebSocket, for handlers of the
// loop and of net/http. Bytes move in both directions, more than all windows, until one side ends.
func TestHTTP2Tunnel(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	echo := func(w io.Writer, r io.Reader) {
		_, _ = io.WriteString(w,
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Own: "+
				"y\r\n\r\n")
		_, _ = io.CopyN(w, r, size)
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.Header.Get("Upgrade") != "websocket" ||
			r.Header.Get("Sec-Websocket-Key") == "" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		echo(c, rw)
	})
	handlers := map[string]conn.Handler{
		"loop": func(req *conn.Request, w *conn.Response) int {
			c, r, err := w.Hijack()
			if err != nil {
				return w.Error(500, err)
			}
			if c.RemoteAddr().String() != req.RemoteAddr().String() {
				t.Error(c.RemoteAddr())
			}
			echo(c, r)
			return 0
		},
		"bridge": conn.HTTP(std), "bridge on the loop": conn.HTTPOnLoop(std),
	}
	for name, h := range handlers {
		run(t, func(t *testing.T, m mode) {
			log := new(entries)
			s := start(t, m, conn.Config{Handler: h, AccessLog: log})
			c := s.Dial()
			c.Send(upgrade2)
			std, err := http.ReadResponse(c.R, nil)
			if err != nil || std.StatusCode != 101 || std.Header.Get("X-Own") != "y" {
				t.Fatal(name, std, err)
			}
			sent := chacha(size)
			go func() { _, _ = c.Write(sent) }()
			got := make([]byte, size)
			if _, err := io.ReadFull(c.R, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%s: %v", name, err)
			}
			if rest, _ := io.ReadAll(c.R); len(rest) > 0 {
				t.Errorf("%s: %q", name, rest)
			}
			c.Close()
			s.Idle()
			if e := log.one(t); !e.Hijacked || e.Status != 101 || e.Proto != "HTTP/2.0" {
				t.Errorf("%s: %+v", name, e)
			}
		}, modes.HTTP2, modes.HTTP2TLS)
	}
}

// TestHTTP2TunnelEnds: handlers that refuse, clients that leave, and another protocol.
func TestHTTP2TunnelEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/no" {
			return 403
		}
		c, r, err := w.Hijack()
		if err == nil {
			fmt.Fprint(c, "HTTP/1.1 101 S\r\n\r\n")
			_, err = io.Copy(io.Discard, r)
		}
		ended <- err
		return 0
	}})
	connect := func(protocol, path string) []string {
		return []string{":method", "CONNECT", ":scheme", "http", ":path", path, ":authority", "a",
			":protocol", protocol, "sec-websocket-version", "13"}
	}
	r := dial2(t, s)
	r.head(1, 0, connect("websocket", "/no")...).flush()
	if got := r.until(http2.Headers); got != "HEADERS 1 403" {
		t.Error(got)
	}
	r.head(3, 0, connect("other", "/")...).flush()
	if got := r.until(http2.Headers); got != "HEADERS 3 501" {
		t.Error(got)
	}
	r.Close()
	for _, row := range []struct {
		end  func(id uint32)
		want string // of the read
	}{
		{func(id uint32) { r.frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08").flush() }, "stream reset"},
		{func(id uint32) { r.frame(http2.Data, http2.EndStream, id, "").flush() }, ""},
		{func(id uint32) { r.Close() }, "client gone"},
	} {
		r = dial2(t, s)
		r.head(1, 0, connect("websocket", "/")...).flush()
		if got := r.until(http2.Headers); got != "HEADERS 1 200" {
			t.Error(got)
		}
		row.end(1)
		if err := <-ended; (err == nil) != (row.want == "") ||
			err != nil && !strings.HasSuffix(err.Error(), ": "+row.want) {
			t.Errorf("%v instead of %q", err, row.want)
		}
		r.Close()
	}
	s.Idle()
}

// TestHTTP2Tally: connections, streams and resets are counted, and none is left over.
func TestHTTP2Tally(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/ws" {
			c, r, err := w.Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
				_, err = io.Copy(io.Discard, r)
			}
			if err != nil {
				t.Error(err)
			}
			return 0
		}
		_, _ = req.AwaitAny(-1, loop.FromChan(release))
		return 204
	}})
	tally := func() string {
		var y conn.Stats
		s.On(func(l *loop.Loop) { y = s.Server.Stats(l) })
		return fmt.Sprint(y.Sessions, y.AtWork, y.Streams, y.Tunnels, y.Resets)
	}
	r := dial2(t, s)
	r.frame(http2.Ping, 0, 0, "12345678").flush()
	r.until(http2.Ping)
	if got := tally(); got != "1 0 0 0 0" {
		t.Error(got)
	}
	r.get(1).get(3).head(5, 0, ":method", "CONNECT", ":scheme", "http", ":path", "/ws", ":authority",
		"a", ":protocol", "websocket").flush()
	r.until(http2.Headers)
	if got := tally(); got != "1 1 3 1 0" {
		t.Error(got)
	}
	r.frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08").flush()
	s.Settled("a reset", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == 2 })
	close(release)
	r.until(http2.Headers)
	r.frame(http2.Data, http2.EndStream, 5, "").flush()
	s.Settled("no streams", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == 0 })
	if got := tally(); got != "1 0 0 0 1" {
		t.Error(got)
	}
	r.Close()
	s.Idle()
	if got := tally(); got != "0 0 0 0 1" {
		t.Error(got)
	}
}

// TestHTTP2TunnelNoHead: the stream of a handler that does not answer its request before it speaks
// another protocol is reset, and the log says why.
func TestHTTP2TunnelNoHead(t *testing.T) {
	t.Parallel()
	text := map[string]string{"/none": "", "/other": "hello\r\n\r\n",
		"/old": "HTTP/1.0 200 OK\r\n\r\n", "/part": "HTTP/1.1 101 S\r\n",
		"/long": strings.Repeat("x", 70<<10)}
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		c, _, err := w.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		if req.Path() == "/panic" {
			panic("expected")
		}
		_, err = io.WriteString(c, text[req.Path()])
		if bad := req.Path() != "/none" && req.Path() != "/part"; bad != (err != nil) {
			t.Errorf("%s: %v", req.Path(), err)
		}
		return 0
	}})
	s.Panics.Expect()
	r, id := dial2(t, s), uint32(1)
	for _, path := range []string{"/none", "/other", "/old", "/part", "/long", "/panic"} {
		s.Log.Reset()
		r.head(id, 0, ":method", "CONNECT", ":scheme", "http", ":path", path, ":authority", "a",
			":protocol", "websocket").flush()
		if got := r.until(http2.Headers, http2.RSTStream,
			http2.Data); got != fmt.Sprintf("RST_STREAM %d INTERNAL_ERROR", id) {
			t.Errorf("%s: %s", path, got)
		}
		s.Settle()
		if log := s.Log.String(); strings.Contains(log,
			"has not written the head") == (path == "/panic") ||
			!strings.Contains(log, "target="+path) || strings.Count(log, "\n") != 1 {
			t.Errorf("%s: %s", path, log)
		}
		id += 2
	}
}

// TestHTTP2NoWebSocket: an answer that means no WebSocket opens none (RFC 8441 section 4: a 2xx
// does).
func TestHTTP2NoWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		switch req.Path() {
		case "/hijacks":
			c, _, err := w.Hijack()
			if err != nil {
				return 500
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			return 0
		case "/streams":
			w.WriteString("a page")
			_ = w.Flush()
			return 200
		case "/none":
			return 404
		}
		return w.Text(203, "a page")
	}})
	r := dial2(t, s)
	for i, row := range []struct {
		path, want string
	}{{"/", "400"}, {"/streams", "400"}, {"/hijacks", "400"}, {"/none", "404"}} {
		id := uint32(2*i + 1)
		r.head(id, 0, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path",
			row.path, ":authority", "a").flush()
		if got := r.until(http2.Headers); got != fmt.Sprintf("HEADERS %d %s", id, row.want) {
			t.Errorf("%s: %s", row.path, got)
		}
	}
}
