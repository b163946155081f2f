package conn_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// FuzzHTTP2Session sends a server whatever there is, behind the preface. The server must come to an
// end with it when the client has, keep no stream, and go on serving others.
func FuzzHTTP2Session(f *testing.F) {
	get := func(id uint32, fields ...string) *raw2 { return new(raw2).get(id, fields...) }
	post := []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a"}
	connect := []string{":method", "CONNECT", ":scheme", "http", ":path", "/ws", ":authority", "a",
		":protocol", "websocket"}
	for _, r := range []*raw2{
		get(1), get(1).get(3).get(5, "priority", "u=0, i"), get(1, "te", "gzip"), get(2),
		new(raw2).head(1, 0, post...).frame(http2.Data, http2.Padded, 1, "\x02abcde").frame(http2.Data,
			http2.EndStream, 1, "f"),
		new(raw2).head(1, 0, post...).frame(http2.Data, 0, 1, strings.Repeat("x", 9000)).head(1,
			http2.EndStream, "x-t", "u"),
		get(1).frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08").get(3),
		new(raw2).head(1, 0, connect...).frame(http2.Data, 0, 1, "hello").frame(http2.Data,
			http2.EndStream, 1, ""),
		new(raw2).frame(http2.SettingsFrame, 0, 0,
			"\x00\x04\x00\x00\x00\x01").get(1).frame(http2.WindowUpdate, 0, 1, "\x00\x00\x00\x05").
			frame(http2.SettingsFrame, 0, 0, "\x00\x04\x00\x00\x00\x00").frame(http2.WindowUpdate, 0, 0,
			"\x7f\xff\x00\x00"),
		get(1).frame(http2.Ping, 0, 0, "12345678").frame(http2.GoAway, 0, 0,
			"\x00\x00\x00\x00\x00\x00\x00\x00"),
		new(raw2).frame(http2.Headers, http2.EndStream, 1, "\x82\x84\x86").frame(http2.Continuation,
			http2.EndHeaders, 1, "\x41\x01a"),
		new(raw2).frame(http2.PriorityUpdate, 0, 0, "\x00\x00\x00\x01u=0").get(1).frame(http2.Priority, 0,
			3, "\x00\x00\x00\x01\x10"),
	} {
		f.Add(string(r.out))
	}
	s := start(f, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxStreams: 8},
			Handler: func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/ws" {
					c, r, err := w.Hijack()
					if err != nil {
						return 400
					}
					_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
					_, _ = io.Copy(c, r)
					return 0
				}
				if _, err := io.Copy(w, req.Body()); err != nil {
					return 400
				}
				return 200
			}})
	f.Fuzz(func(t *testing.T, data string) {
		until := time.Now().Add(10 * time.Second)
		c := must.Dial(t, "tcp", s.Addr)
		_ = c.SetDeadline(until)
		r := &raw2{t: nil, Conn: c, out: []byte(http2.Preface)}
		r.frame(http2.SettingsFrame, 0, 0, "")
		go func() {
			_, _ = io.WriteString(c, string(r.out)+data)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, c); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Fatal("the session does not end")
			}
		}
		other := must.Dial(t, "tcp", s.Addr)
		_ = other.SetDeadline(until)
		_, _ = io.WriteString(other, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if got, err := io.ReadAll(other); !strings.HasPrefix(string(got), "HTTP/1.1 200") {
			t.Fatalf("another client gets %q, %v", got, err)
		}
	})
}
