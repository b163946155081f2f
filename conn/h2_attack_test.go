package conn_test

import (
	"fmt"
	"io"
	"os"
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

// many is a send function of rude that sends the same thing again and again.
func many(n int, send func(r *raw2)) func(*raw2) {
	return func(r *raw2) {
		for range n {
			send(r)
		}
	}
}

// TestHTTP2Attacks: attacks known by name that TestHTTP2ProtocolErrors has not got. Each ends the
// connection, or the stream, or is of no effect.
func TestHTTP2Attacks(t *testing.T) {
	t.Parallel()
	const (
		calm, last = "GOAWAY ENHANCE_YOUR_CALM", 1<<31 - 1
		zero, full = "\x00\x00\x00\x00", "\x7f\xff\xff\xff"
	)
	wait := block(":method", "GET", ":scheme", "http", ":path", "/wait", ":authority", "a")
	whole := uint8(http2.EndHeaders | http2.EndStream)
	setting := func(id, value string) func(*raw2) {
		return func(r *raw2) { r.frame(http2.SettingsFrame, 0, 0, "\x00"+id+value).get(1) }
	}
	entry := func(name, value int) string { // a field that is kept in the table
		return "\x40\x7f" + string([]byte{byte(name-127) | 0x80, byte((name - 127) >> 7)}) +
			strings.Repeat("n", name) +
			string([]byte{byte(value)}) + strings.Repeat("v", value)
	}
	for _, test := range []struct {
		name string
		send func(r *raw2)
		want string
	}{
		{"a list of 100 MB", func(r *raw2) {
			r.frame(http2.Headers, http2.EndStream, 1, wait+entry(4000, 1))
			r.frame(http2.Continuation, 0, 1, strings.Repeat("\xbe", 16<<10)).frame(http2.Continuation,
				http2.EndHeaders, 1, strings.Repeat("\xbe", 10<<10))
		}, "GOAWAY COMPRESSION_ERROR"},
		{"table churn", func(r *raw2) { // three bytes make an entry of 4 kB anew
			r.frame(http2.Headers, http2.EndStream, 1, wait+entry(4000, 1))
			r.frame(http2.Continuation, http2.EndHeaders, 1, strings.Repeat("\x7e\x01v", 5<<10))
		}, "GOAWAY COMPRESSION_ERROR"},
		{"a long list", func(r *raw2) {
			r.frame(http2.Headers, whole, 1, wait+entry(4000, 1)+strings.Repeat("\xbe", 50))
		}, "HEADERS 1 431"},
		{"a table of 4 GiB", setting("\x01", "\xff\xff\xff\xff"), "HEADERS 1 200"},
		{"no table", setting("\x01", zero), "HEADERS 1 200"},
		{"frames of 0", setting("\x05", zero), "GOAWAY PROTOCOL_ERROR"},
		{"frames of 16383", setting("\x05", "\x00\x00\x3f\xff"), "GOAWAY PROTOCOL_ERROR"},
		{"frames of 16 MiB", setting("\x05", "\x00\xff\xff\xff"), "HEADERS 1 200"},
		{"lists of 0", setting("\x06", zero), "HEADERS 1 200"},
		{"a thousand settings", func(r *raw2) {
			r.frame(http2.SettingsFrame, 0, 0,
				strings.Repeat("\x00\x04"+zero+"\x00\x04\x00\x00\xff\xff", 1000)).get(1)
		}, "HEADERS 1 200"},
		{"PRIORITY_UPDATE flood", many(5000, func(r *raw2) {
			r.frame(http2.PriorityUpdate, 0, 0, "\x00\x00\x00\x03u=1")
		}), calm},
		{"WINDOW_UPDATE flood", many(5000, func(r *raw2) {
			r.frame(http2.WindowUpdate, 0, 0, "\x00\x00\x00\x01")
		}), calm},
		{"flood of unknown frames", many(5000, func(r *raw2) { r.frame(0x42, 0xff, 7, "") }), calm},
		{"flood of resets of one stream", func(r *raw2) {
			r.get(1)
			many(5000, func(r *raw2) { r.frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08") })(r)
		}, calm},
		{"flood of updates of a closed stream", func(r *raw2) {
			r.get(1).frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08")
			many(5000, func(r *raw2) { r.frame(http2.WindowUpdate, 0, 1, "\x00\x00\x00\x01") })(r)
		}, calm},
		{"a little of each", func(r *raw2) {
			many(700, func(r *raw2) { r.frame(http2.Ping, 0, 0, "12345678") })(r)
			for id := uint32(1); id < 300; id += 2 {
				r.head(id, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/wait", ":authority",
					"a").
					frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08")
			}
		}, calm},
		{"a page that is given up", func(r *raw2) {
			for id := uint32(1); id < 200; id += 2 {
				r.head(id, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/wait", ":authority",
					"a")
			}
			for id := uint32(1); id < 200; id += 2 {
				r.frame(http2.RSTStream, 0, id, "\x00\x00\x00\x08")
			}
			r.frame(http2.Ping, 0, 0, "12345678").get(201)
		}, "HEADERS 201 200"},
		{"flood of padding", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders, 1, strings.Replace(wait, "/wait", "/five", 1))
			many(5000, func(r *raw2) { r.frame(http2.Data, http2.Padded, 1, "\x00") })(r)
		}, calm},
		{"window of a stream beyond 2^31", func(r *raw2) {
			r.frame(http2.Headers, whole, 1, wait).frame(http2.WindowUpdate, 0, 1, full)
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
		{"windows beyond 2^31 by a setting", func(r *raw2) {
			r.frame(http2.Headers, whole, 1, wait).frame(http2.WindowUpdate, 0, 1,
				"\x7f\xff\x00\x00").frame(http2.SettingsFrame, 0, 0, "\x00\x04"+full)
		}, "GOAWAY FLOW_CONTROL_ERROR"},
		{"a stream again", func(r *raw2) {
			r.frame(http2.Headers, whole, 1, wait).frame(http2.Headers, whole, 1, wait)
		}, "RST_STREAM 1 STREAM_CLOSED"},
		{"the last stream", func(r *raw2) { r.get(last) }, "HEADERS 2147483647 200"},
		{"behind the last stream", func(r *raw2) { r.get(last).get(last - 2) }, "GOAWAY PROTOCOL_ERROR"},
		{"a stream that does not exist", func(r *raw2) { r.get(1 << 31) }, "GOAWAY PROTOCOL_ERROR"},
	} {
		rude(t, test.name, test.send, test.want)
	}
}

// TestHTTP2MadeYouReset (CVE-2025-8671): whatever mistake makes the server reset a stream, handlers
// that still run count, and the resets do, too.
func TestHTTP2MadeYouReset(t *testing.T) {
	t.Parallel()
	const most = 20
	var running, peak atomic.Int64
	release := make(chan struct{})
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxStreams: most},
			Handler: func(req *conn.Request, _ *conn.Response) int {
				n := running.Add(1)
				for {
					if p := peak.Load(); n <= p || peak.CompareAndSwap(p, n) {
						break
					}
				}
				defer running.Add(-1)
				req.KeepWaiting(true)
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
				return 204
			}})
	ways := map[string]func(r *raw2, id uint32){
		"update of 0": func(r *raw2, id uint32) {
			r.get(id).frame(http2.WindowUpdate, 0, id, "\x00\x00\x00\x00")
		},
		"window beyond 2^31": func(r *raw2, id uint32) {
			r.get(id).frame(http2.WindowUpdate, 0, id, "\x7f\xff\xff\xff")
		},
		"content behind it": func(r *raw2, id uint32) { r.get(id).frame(http2.Data, 0, id, "x") },
		"fields behind it":  func(r *raw2, id uint32) { r.get(id).get(id) },
		"too much content": func(r *raw2, id uint32) {
			r.post(id, "/", "content-length", "1").frame(http2.Data, 0, id, "xx")
		},
		"too little content": func(r *raw2, id uint32) {
			r.post(id, "/", "content-length", "1").frame(http2.Data, http2.EndStream, id, "")
		},
		"half a PRIORITY": func(r *raw2, id uint32) {
			r.get(id).frame(http2.Priority, 0, id, "\x00\x00")
		},
		"PRIORITY over itself": func(r *raw2, id uint32) {
			r.get(id).frame(http2.Priority, 0, id, uint32Of(id)+"\x01")
		},
		"a bad trailer": func(r *raw2, id uint32) {
			r.post(id, "/").head(id, http2.EndStream, ":path", "/")
		},
	}
	for name, way := range ways {
		r := dial2(t, s)
		for id := uint32(1); id < 1000; id += 2 {
			way(r, id)
		}
		go r.flush()
		if got := r.until(http2.GoAway); got != "GOAWAY ENHANCE_YOUR_CALM" && name != "fields behind it" {
			t.Errorf("%s: %s", name, got)
		}
		r.Close()
	}
	s.Settle()
	if p, bound := peak.Load(), int64(most*len(ways)); p > bound {
		t.Errorf("%d handlers at a time, for %d connections", p, len(ways))
	}
	close(release)
	s.Idle()
}

// TestHTTP2NeverReads: a client with a thousand streams of a megabyte each that reads nothing costs
// its handlers' stacks and some buffers, and is cut after write_timeout. Other tests do not run
// meanwhile, since it looks at the heap.
func TestHTTP2NeverReads(t *testing.T) {
	// A busy machine may take long to begin them all, and no limit ends one before.
	const streams, limit = 1000, 2 * wait.Patience
	file := t.TempDir() + "/f"
	must.Do(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	body := make([]byte, 1<<20)
	// of a stream: none, or all
	for _, window := range []string{"\x00\x00\x00\x00", "\x7f\xff\xff\xff"} {
		s := start(t, modes.HTTP2, conn.Config{
			Limits: conn.Limits{WriteTimeout: limit, KeepAliveTimeout: limit, MaxStreams: streams},
			Handler: func(req *conn.Request, w *conn.Response) int {
				switch req.Path() {
				case "/file":
					f, err := os.Open(file)
					if err != nil {
						t.Error(err)
					}
					w.SetBodyFile(f, 0, 1<<20)
				case "/reader":
					w.SetBodyReader(io.LimitReader(zeros{}, 1<<20), 1<<20)
				default:
					w.SetBody(body)
				}
				return 200
			}})
		before := heap()
		r := dial2(t, s)
		r.frame(http2.SettingsFrame, 0, 0, "\x00\x04"+window).frame(http2.WindowUpdate, 0, 0,
			"\x7f\x00\x00\x00")
		for i := range uint32(streams) {
			path := [...]string{"/", "/file", "/reader"}[i%3]
			if i > 300 {
				path = "/" // the others have a descriptor or a buffer each
			}
			r.head(2*i+1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", path, ":authority",
				"a")
		}
		r.flush()
		s.Settled("all wait", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == streams })
		if n := int64(heap() - before); n > 40<<20 {
			t.Errorf("%d bytes", n)
		}
		s.Skip(2 * limit)
		s.Skip(2 * limit)
		if window[0] == 0 { // this client reads the rest
			go func() { _, _ = io.Copy(io.Discard, r) }()
		}
		wait.Until(t, "the connection has ended", func() bool {
			s.Skip(2 * limit) // once more if its kernel has taken something meanwhile
			return s.Active() == 0
		})
	}
}

// TestHTTP2LongHead: a client that takes a head of megabytes slowly, and asks whether the server is
// there meanwhile, has caused little of what waits for it.
func TestHTTP2LongHead(t *testing.T) {
	t.Parallel()
	const size, pings = 8 << 20, 50
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("X-Long", strings.Repeat("x", size))
		return 204
	}})
	r := dial2(t, s)
	r.get(1).flush()
	for sent, answered := 0, 0; answered < pings; {
		if sent++; sent <= pings {
			r.frame(http2.Ping, 0, 0, "12345678").flush()
		}
		switch got := r.until(http2.Continuation, http2.Ping, http2.GoAway); got {
		case "frame 6 on 0":
			answered++
		case "frame 9 on 1":
		default:
			t.Fatal(got)
		}
	}
}

// TestHTTP2SlowBodies: a client that begins a thousand uploads and sends nothing gets as many
// answers, and what it could have sent by then is bounded by the window of its connection.
func TestHTTP2SlowBodies(t *testing.T) {
	t.Parallel()
	const streams = 1000
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{BodyTimeout: time.Minute, MaxStreams: streams},
			Handler: func(req *conn.Request, w *conn.Response) int {
				_, err := io.Copy(io.Discard, req.Body())
				return w.Error(400, err)
			}})
	r := dial2(t, s)
	for i := range uint32(streams) {
		r.post(2*i+1, "/")
	}
	r.post(2*streams+1, "/").flush()
	if got := r.until(http2.RSTStream); got != fmt.Sprintf("RST_STREAM %d REFUSED_STREAM",
		2*streams+1) {
		t.Error(got)
	}
	s.Settle()
	if n := conn.Grown(s.Server); n > 16<<20 {
		t.Errorf("windows have grown by %d bytes", n)
	}
	s.Skip(2 * time.Minute)
	for range streams {
		if got := r.until(http2.Headers, http2.GoAway); !strings.HasPrefix(got, "HEADERS ") ||
			!strings.HasSuffix(got, " 408") {
			t.Fatal(got)
		}
	}
	if got := r.get(2*streams+3).flush().until(http2.Headers, http2.GoAway); !strings.HasSuffix(got,
		" 400") {
		t.Error(got)
	}
}
