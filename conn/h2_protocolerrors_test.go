package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// raw2 is a client of HTTP/2 that sends what it likes.
type raw2 struct {
	t *testing.T
	net.Conn
	out []byte
}

// dial2 connects, and sends the preface and empty SETTINGS.
func dial2(t *testing.T, s *site) *raw2 {
	t.Helper()
	c := must.Dial(t, "tcp", s.Addr)
	r := &raw2{t: t, Conn: c, out: []byte(http2.Preface)}
	r.frame(http2.SettingsFrame, 0, 0, "")
	return r
}

func (r *raw2) frame(t http2.Type, flags uint8, id uint32, payload string) *raw2 {
	r.out = append(http2.AppendHeader(r.out, t, flags, id, len(payload)), payload...)
	return r
}

// get is a request for "/", perhaps with more fields.
func (r *raw2) get(id uint32, fields ...string) *raw2 {
	return r.head(id, http2.EndStream,
		append([]string{":method", "GET", ":scheme", "http", ":path", "/",
			":authority", "a"}, fields...)...)
}

func (r *raw2) head(id uint32, flags uint8, fields ...string) *raw2 {
	return r.frame(http2.Headers, flags|http2.EndHeaders, id, block(fields...))
}

// block encodes fields as they are.
func block(fields ...string) string {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = append(b, 0)
		for _, s := range fields[i : i+2] {
			if len(s) < 127 {
				b = append(b, byte(len(s)))
			} else {
				b = append(b, 127, byte(len(s)-127)|0x80, byte((len(s)-127)>>7)|0x80, byte((len(s)-127)>>14))
			}
			b = append(b, s...)
		}
	}
	return string(b)
}

// flush sends what was gathered. A server that does not want more may have closed the connection.
func (r *raw2) flush() *raw2 {
	_, _ = r.Write(r.out)
	r.out = r.out[:0]
	return r
}

// next returns the next frame. The end of the connection is one of type 255.
func (r *raw2) next() (http2.Header, []byte) {
	r.t.Helper()
	head := make([]byte, http2.FrameHeaderLen)
	if _, err := io.ReadFull(r, head); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() {
			return http2.Header{Type: 255}, []byte("the server neither answers nor closes")
		}
		return http2.Header{Type: 255}, nil
	}
	h := http2.ParseHeader(head)
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return http2.Header{Type: 255}, nil
	}
	return h, payload
}

// until returns the first frame of that type, or of the end: "RST_STREAM id CODE", "GOAWAY CODE",
// "HEADERS id status", "end".
func (r *raw2) until(types ...http2.Type) string {
	r.t.Helper()
	for {
		h, payload := r.next()
		wanted := h.Type == 255 || bytes.IndexByte([]byte(typesOf(types)), byte(h.Type)) >= 0
		switch {
		case !wanted:
		case h.Type == http2.RSTStream:
			return fmt.Sprintf("RST_STREAM %d %s", h.Stream, http2.Code(http2.Uint32(payload)).String())
		case h.Type == http2.GoAway:
			return "GOAWAY " + http2.Code(http2.Uint32(payload[4:])).String()
		case h.Type == http2.Headers:
			var d http2.Decoder
			var f http2.Fields
			f.Reset(1 << 20)
			_ = d.Decode(payload, &f)
			return fmt.Sprintf("HEADERS %d %s", h.Stream, f.List[0].Value.Of(f.Buf))
		case h.Type == 255:
			return "end" + string(payload)
		default:
			return fmt.Sprintf("frame %d on %d", h.Type, h.Stream)
		}
	}
}

func typesOf(types []http2.Type) string {
	b := make([]byte, len(types))
	for i, t := range types {
		b[i] = byte(t)
	}
	return string(b)
}

// TestHTTP2ProtocolErrors: what clients send that may not be sent, and how the stream or the
// connection ends.
func TestHTTP2ProtocolErrors(t *testing.T) {
	t.Parallel()
	post := []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a"}
	const reset, end = "RST_STREAM 1 PROTOCOL_ERROR", "GOAWAY PROTOCOL_ERROR"
	bad := func(fields ...string) func(*raw2) {
		return func(r *raw2) { r.get(1, fields...) }
	}
	for _, test := range []struct {
		name string
		send func(r *raw2)
		want string
	}{
		{"nothing wrong", func(r *raw2) { r.get(1) }, "HEADERS 1 200"},
		{"preface", func(r *raw2) { r.out = []byte("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n") }, end},
		{"no settings", func(r *raw2) { r.out = []byte(http2.Preface); r.get(1) }, end},
		{"upper case", bad("X-Up", "a"), reset},
		{"space in a name", bad("x y", "a"), reset},
		{"colon in a name", bad("x:y", "a"), reset},
		{"no name", bad("", "a"), reset},
		{"CR", bad("x", "a\rb"), reset}, {"LF", bad("x", "a\nb"), reset},
		{"NUL", bad("x", "a\x00b"), reset},
		{"space in front", bad("x", " a"), reset}, {"space behind", bad("x", "a "), reset},
		{"connection", bad("connection", "close"), reset},
		{"keep-alive", bad("keep-alive", "a"), reset},
		{"transfer-encoding", bad("transfer-encoding", "chunked"), reset},
		{"upgrade", bad("upgrade", "h2c"), reset}, {"te", bad("te", "gzip"), reset},
		{"te: trailers", bad("te", "trailers"), "HEADERS 1 200"},
		{"method twice", bad(":method", "GET"), reset},
		{"pseudo-field behind", bad("x", "a", ":path", "/"), reset},
		{"unknown pseudo-field", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/", ":x", "a")
		}, reset},
		{"no path", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":authority", "a")
		}, reset},
		{"empty path", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "", ":authority", "a")
		}, reset},
		{"no authority", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/")
		}, "HEADERS 1 400"},
		{"two hosts", bad("host", "b"), "HEADERS 1 400"}, {"one host", bad("host", "a"), "HEADERS 1 200"},
		{"absolute path", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "http://b/",
				":authority", "a")
		}, "HEADERS 1 400"},
		{"control in the path", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/\x01", ":authority",
				"a")
		}, "HEADERS 1 400"},
		{"space in the path", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1",
				":authority", "a")
		}, "HEADERS 1 400"},
		{"scheme", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "a")
		}, "HEADERS 1 400"},
		{"https on a plain connection", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a")
		}, "HEADERS 1 421"},
		{"te in upper case", bad("te", "TRAILERS"), "HEADERS 1 200"},
		{"te of more", bad("te", "trailers, gzip"), reset},
		{"userinfo", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/", ":authority",
				"b@a")
		}, "HEADERS 1 400"},
		{"CONNECT", func(r *raw2) {
			r.head(1, http2.EndStream, ":method", "CONNECT", ":authority", "a:80")
		}, "HEADERS 1 405"},
		{"fields beyond max_header_size",
			bad("x", strings.Repeat("v", 15<<10), "y", strings.Repeat("v", 900)), "HEADERS 1 431"},
		{"content-length twice", bad("content-length", "0", "content-length", "1"), "HEADERS 1 400"},
		{"less than content-length", func(r *raw2) {
			r.head(1, 0, append(post, "content-length", "5")...).frame(http2.Data, http2.EndStream, 1,
				"four")
		}, reset},
		{"more than content-length", func(r *raw2) {
			r.head(1, 0, append(post, "content-length", "3")...).frame(http2.Data, http2.EndStream, 1,
				"four")
		}, reset},
		{"content-length and no content", bad("content-length", "3"), reset},
		{"even stream", func(r *raw2) { r.get(2) }, end}, {"stream 0", func(r *raw2) { r.get(0) }, end},
		{"backwards", func(r *raw2) { r.get(5).get(3) }, end},
		{"data on an idle stream", func(r *raw2) { r.frame(http2.Data, 0, 1, "x") }, end},
		{"reset of an idle stream", func(r *raw2) { r.frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08") },
			end},
		{"an unknown frame on an even stream", func(r *raw2) { r.frame(0x42, 0, 2, "x").get(1) },
			"HEADERS 1 200"},
		{"push", func(r *raw2) { r.frame(http2.PushPromise, http2.EndHeaders, 1, "\x00\x00\x00\x02") },
			end},
		{"a frame in a field block", func(r *raw2) {
			r.frame(http2.Headers, 0, 1, block(":method", "GET")).frame(http2.Ping, 0, 0, "12345678")
		}, end},
		{"continuation of nothing",
			func(r *raw2) { r.frame(http2.Continuation, http2.EndHeaders, 1, "") }, end},
		{"frame too large", func(r *raw2) { r.frame(http2.Data, 0, 1, strings.Repeat("x", 16<<10+1)) },
			"GOAWAY FRAME_SIZE_ERROR"},
		{"ping of 7", func(r *raw2) { r.frame(http2.Ping, 0, 0, "1234567") }, "GOAWAY FRAME_SIZE_ERROR"},
		{"settings of 5", func(r *raw2) { r.frame(http2.SettingsFrame, 0, 0, "12345") },
			"GOAWAY FRAME_SIZE_ERROR"},
		{"window of 2^31", func(r *raw2) {
			r.frame(http2.SettingsFrame, 0, 0, "\x00\x04\x80\x00\x00\x00")
		}, "GOAWAY FLOW_CONTROL_ERROR"},
		{"frames of 2^24", func(r *raw2) {
			r.frame(http2.SettingsFrame, 0, 0, "\x00\x05\x01\x00\x00\x00")
		}, end},
		{"update of 0", func(r *raw2) { r.frame(http2.WindowUpdate, 0, 0, "\x00\x00\x00\x00") }, end},
		{"updates beyond 2^31", func(r *raw2) {
			r.frame(http2.WindowUpdate, 0, 0, "\x7f\xff\xff\xff").frame(http2.WindowUpdate, 0, 0,
				"\x7f\xff\xff\xff")
		}, "GOAWAY FLOW_CONTROL_ERROR"},
		{"a block that is none", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, "\xff\xff\xff\xff\xff")
		}, "GOAWAY COMPRESSION_ERROR"},
		{"padding that is all", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders|http2.EndStream|http2.Padded, 1, "\x05abc")
		}, end},
		{"itself first", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders|http2.EndStream|http2.PriorityFlag, 1,
				"\x00\x00\x00\x01\x10"+block(":method", "GET"))
		}, end},
		{"CONTINUATION flood", func(r *raw2) {
			r.frame(http2.Headers, 0, 1, block(":method", "GET"))
			for range 1000 {
				r.frame(http2.Continuation, 0, 1, "")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"a block of a megabyte", func(r *raw2) {
			r.frame(http2.Headers, 0, 1, block(":method", "GET"))
			for range 64 {
				r.frame(http2.Continuation, 0, 1, strings.Repeat("x", 16<<10))
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"ping flood", func(r *raw2) {
			for range 5000 {
				r.frame(http2.Ping, 0, 0, "12345678")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"settings flood", func(r *raw2) {
			for range 5000 {
				r.frame(http2.SettingsFrame, 0, 0, "\x00\x03\x00\x00\x00\x64")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"priority flood", func(r *raw2) {
			for range 5000 {
				r.frame(http2.Priority, 0, 3, "\x00\x00\x00\x00\x10")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"flood of empty content", func(r *raw2) {
			r.head(1, 0, post...)
			for range 5000 {
				r.frame(http2.Data, 0, 1, "")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"rapid reset", func(r *raw2) {
			for id := uint32(1); id < 2000; id += 2 {
				r.get(id).frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"resets that the server is made to send", func(r *raw2) {
			for id := uint32(1); id < 2000; id += 2 {
				r.get(id).frame(http2.WindowUpdate, 0, id, "\x00\x00\x00\x00")
			}
		}, "GOAWAY ENHANCE_YOUR_CALM"},
		{"more than the window", func(r *raw2) {
			r.head(1, 0, ":method", "POST", ":scheme", "http", ":path", "/wait", ":authority", "a")
			for range 17 {
				r.frame(http2.Data, 0, 1, strings.Repeat("x", 16<<10))
			}
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
	} {
		rude(t, test.name, test.send, test.want)
	}
}

// rude sends something, and looks how the server takes it.
func rude(t *testing.T, name string, send func(r *raw2), want string) {
	t.Helper()
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/wait" {
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
		}
		_, err := io.Copy(io.Discard, req.Body())
		if req.Header().Get("Content-Length") != "" && err == nil {
			return 200
		}
		return w.Text(200, "served")
	}})
	defer close(release)
	r := dial2(t, s)
	send(r)
	go r.flush() // the server may not read all of it
	kinds := []http2.Type{http2.Headers, http2.RSTStream, http2.GoAway}
	switch {
	case strings.HasPrefix(want, "GOAWAY"):
		kinds = kinds[2:] // what came before was answered
	case strings.HasPrefix(want, "RST"):
		kinds = kinds[1:]
	}
	if got := r.until(kinds...); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

// TestHTTP2RunningHandlers: resets do not make room for more handlers than there may be streams.
func TestHTTP2RunningHandlers(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	release := make(chan struct{})
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxStreams: 50},
			Handler: func(req *conn.Request, w *conn.Response) int {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer running.Add(-1)
				req.KeepWaiting(true) // as one that does not heed that its client has left
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
				return 200
			}})
	r := dial2(t, s)
	for id := uint32(1); id < 101; id += 2 {
		r.get(id)
	}
	r.flush()
	// A stream that is reset before its handler runs counts no more.
	wait.Until(t, "50 handlers run", func() bool { return running.Load() == 50 })
	for id := uint32(1); id < 101; id += 2 {
		r.frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08")
	}
	for id := uint32(101); id < 399; id += 2 {
		r.get(id).frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08")
	}
	r.flush()
	if got := r.until(http2.RSTStream); got != "RST_STREAM 101 REFUSED_STREAM" {
		t.Error(got)
	}
	s.Settle()
	if most.Load() > 50 {
		t.Errorf("%d handlers at a time", most.Load())
	}
	close(release)
}

// TestHTTP2Windows: content goes out within the windows of stream and connection, whatever they
// are, and a client that takes nothing holds up neither other streams nor the server.
func TestHTTP2Windows(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 100<<10)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Header().Get("X-Small") != "" {
			return w.Text(200, "small")
		}
		w.SetBody([]byte(body))
		return 200
	}})
	r := dial2(t, s)
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04\x00\x00\x00\x01") // one byte
	r.get(1).flush()
	if h, p := r.data(); h.Stream != 1 || len(p) != 1 {
		t.Errorf("%d bytes", len(p))
	}
	r.frame(http2.WindowUpdate, 0, 1, "\x00\x00\x00\x05").flush()
	if h, p := r.data(); h.Stream != 1 || len(p) != 5 {
		t.Errorf("%d bytes", len(p))
	}
	r.frame(http2.SettingsFrame, 0, 0, "\x00\x04\x00\x01\x00\x00").flush() // 64 KiB for each stream
	got := 6
	for got < 1<<16-1 { // the connection's window is the smaller one
		_, p := r.data()
		got += len(p)
	}
	if got != 1<<16-1 {
		t.Errorf("%d bytes within the windows", got)
	}
	r.get(3).frame(http2.WindowUpdate, 0, 0, "\x00\x00\x00\x05").flush() // five for both
	for n := 0; n < 5; {
		_, p := r.data()
		n += len(p)
	}
	r.frame(http2.WindowUpdate, 0, 0, "\x00\x10\x00\x00").get(5, "x-small", "y").flush()
	small := false
	for !small {
		h, p := r.data()
		small = h.Stream == 5 && string(p) == "small"
	}
}

// data returns the next frame with content.
func (r *raw2) data() (http2.Header, []byte) {
	r.t.Helper()
	for {
		if h, p := r.next(); h.Type == http2.Data && len(p) > 0 || h.Type == 255 {
			return h, p
		}
	}
}

// TestHTTP2SlowBody: a client that does not send its body gets 408, and its other streams go on.
func TestHTTP2SlowBody(t *testing.T) {
	t.Parallel()
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{BodyTimeout: 50 * time.Millisecond},
			Handler: func(req *conn.Request, w *conn.Response) int {
				if _, err := io.Copy(io.Discard, req.Body()); err != nil {
					return w.Error(400, err)
				}
				return w.Text(200, "served")
			}})
	r := dial2(t, s)
	r.head(1, 0, ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a").flush()
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 1 408" {
		t.Error(got)
	}
	r.get(3).flush()
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 3 200" {
		t.Error(got)
	}
}

// TestHTTP2Idle: a session without streams ends after keep_alive_timeout, with a GOAWAY.
func TestHTTP2Idle(t *testing.T) {
	t.Parallel()
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{KeepAliveTimeout: 50 * time.Millisecond}, Handler: hello})
	r := dial2(t, s)
	r.get(1).flush()
	if got := r.until(http2.GoAway); got != "GOAWAY NO_ERROR" {
		t.Error(got)
	}
	s.Idle()
}
