package conn_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// post begins a request for a path with a body.
func (r *raw2) post(id uint32, path string, fields ...string) *raw2 {
	return r.head(id, 0, append(
		[]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "a"}, fields...)...)
}

// content sends n bytes in frames that are full.
func (r *raw2) content(id uint32, n int, last uint8) *raw2 {
	for n > 0 {
		k := min(n, http2.DefaultFrameSize)
		if n -= k; n > 0 {
			r.frame(http2.Data, 0, id, string(make([]byte, k)))
		} else {
			r.frame(http2.Data, last, id, string(make([]byte, k)))
		}
	}
	return r
}

// resets sends what was gathered and a PING, and returns what the server ends up to its answer.
func (r *raw2) resets() (all string) {
	r.t.Helper()
	r.frame(http2.Ping, 0, 0, "resets..")
	go func(b []byte) { _, _ = r.Write(b) }(r.out)
	r.out = nil
	for {
		switch h, payload := r.next(); {
		case h.Type == http2.RSTStream:
			all += fmt.Sprintf("%d %s\n", h.Stream, http2.Code(http2.Uint32(payload)).String())
		case h.Type == http2.GoAway:
			all += "GOAWAY " + http2.Code(http2.Uint32(payload[4:])).String() + "\n"
		case h.Type == 255:
			return all + "end"
		case h.Type == http2.Ping && string(payload) == "resets..":
			return all
		}
	}
}

// TestHTTP2LateMistakes: behind an answer, a stream whose client may still send has errors as
// before.
func TestHTTP2LateMistakes(t *testing.T) {
	t.Parallel()
	trailer := block("x-a", "1")
	for _, tt := range []struct {
		name, length string
		send         func(r *raw2)
		want         string
		open         bool // the client has not ended the stream
	}{
		{"update of 0", "", func(r *raw2) {
			r.frame(http2.WindowUpdate, 0, 1, uint32Of(1)).frame(http2.WindowUpdate, 0, 1, uint32Of(0))
		}, "1 PROTOCOL_ERROR\n", true},
		{"window too large", "", func(r *raw2) {
			r.frame(http2.WindowUpdate, 0, 1, uint32Of(1<<31-1))
		}, "1 FLOW_CONTROL_ERROR\n", true},
		{"more than Content-Length", "3", func(r *raw2) { r.frame(http2.Data, 0, 1, "four") },
			"1 PROTOCOL_ERROR\n", true},
		{"less", "3", func(r *raw2) { r.frame(http2.Data, http2.EndStream, 1, "xx") },
			"1 PROTOCOL_ERROR\n", false},
		{"less, and a trailer", "3", func(r *raw2) {
			r.frame(http2.Data, 0, 1, "xx").frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1,
				trailer)
		}, "1 PROTOCOL_ERROR\n", false},
		{"trailer that does not end", "", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders, 1, trailer)
		}, "1 PROTOCOL_ERROR\n", true},
		{"trailer with a pseudo-header field", "", func(r *raw2) {
			r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, block(":path", "/"))
		}, "1 PROTOCOL_ERROR\n", false},
		{"none", "3", func(r *raw2) {
			r.frame(http2.Data, 0, 1, "x").frame(http2.Data, 0, 1, "yz").
				frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, trailer)
		}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, modes.HTTP2, conn.Config{Handler: hello})
			var fields []string
			if tt.length != "" {
				fields = []string{"content-length", tt.length}
			}
			r := dial2(t, s).post(1, "/", fields...).flush()
			if got := r.until(http2.Data); got != "frame 0 on 1" {
				t.Fatal(got)
			}
			if tt.send(r); r.resets() != tt.want {
				t.Errorf("want %q", tt.want)
			}
			if tt.open { // what is under way is no other mistake
				r.frame(http2.Data, http2.EndStream, 1, "x")
			}
			if got := r.get(3).resets(); got != "" {
				t.Error(got)
			}
		})
	}
}

// TestHTTP2Unread: the client of an upload that its handler does not read may send the rest, if
// that is short, and is told to stop otherwise. What it has sent meanwhile is no mistake of it.
func TestHTTP2Unread(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxStreams: 200, MaxBodySize: -1, BodyTimeout: wait.Patience},
			Handler: func(req *conn.Request, w *conn.Response) int {
				switch req.Path() {
				case "/wait":
					_, _ = req.AwaitAny(-1, loop.FromChan(release))
				case "/panic":
					panic(http.ErrAbortHandler)
				}
				return w.Text(200, "unread")
			}})
	const most = 256 << 10
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	answered := func(r *raw2, id uint32) {
		t.Helper()
		if got := r.flush().until(http2.Headers, http2.RSTStream); got != fmt.Sprintf("HEADERS %d 200",
			id) {
			t.Error(got)
		}
	}

	r := dial2(t, s)
	for id := uint32(1); id < 20; id += 2 { // together they are more than all windows
		answered(r.post(id, "/", "content-length", "200000"), id)
		check("a short rest", r.content(id, 200_000, http2.EndStream).resets(), "")
	}
	check("behind the end", r.frame(http2.Data, 0, 1, "x").resets(), "1 STREAM_CLOSED\n")
	for id := uint32(101); id < 105; id += 2 {
		answered(r.post(id, "/"), id)
		check("a body without an end", r.content(id, most, 0).frame(http2.Data, 0, id, "x").resets(),
			fmt.Sprint(id, " NO_ERROR\n"))
	}
	answered(r.post(121, "/", "content-length", "1000000000"), 121)
	check("a long body, as far as it is drained", r.content(121, most, 0).resets(), "")
	check("and beyond it", r.frame(http2.Data, 0, 121, "x").resets(), "121 NO_ERROR\n")

	// The trailer section changes the table of fields.
	answered(r.post(123, "/"), 123)
	r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 123, "\x40\x01x\x01y")
	r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 125,
		block(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")+"\xbe")
	answered(r, 125)
	check("a trailer section", r.resets(), "")
	check("a second one", r.frame(http2.Headers, http2.EndHeaders|http2.EndStream, 123,
		"\xbe").resets(), "GOAWAY STREAM_CLOSED\nend")

	r = dial2(t, s)
	for id := uint32(1); id < 41; id += 2 {
		r.post(id, "/panic")
		if got := r.flush().until(http2.RSTStream); got != fmt.Sprintf("RST_STREAM %d INTERNAL_ERROR",
			id) {
			t.Error(got)
		}
		check("behind a reset", r.content(id, http2.DefaultWindow, 0).resets(), "")
	}
	check("beyond the window", r.frame(http2.Data, 0, 1, "x").resets(), "1 FLOW_CONTROL_ERROR\n")

	r = dial2(t, s)
	r.post(1, "/wait")
	for id := uint32(3); id < 3+2*129; id += 2 {
		answered(r.post(id, "/"), id)
	}
	check("too many", r.resets(), "3 NO_ERROR\n")
	check("the oldest one", r.frame(http2.Data, 0, 3, "x").resets(), "3 STREAM_CLOSED\n")
	check("the next one", r.frame(http2.Data, http2.EndStream, 5, "x").resets(), "")
	s.Skip(wait.Patience + time.Second)
	if got := r.until(http2.RSTStream); got != "RST_STREAM 7 NO_ERROR" {
		t.Error(got)
	}
}

// TestHTTP2RefusedUpload: what a client sends on streams that were refused is no mistake of it.
func TestHTTP2RefusedUpload(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxStreams: 1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
				return 204
			}})
	r := dial2(t, s).get(1)
	want := ""
	for id := uint32(3); id < 63; id += 2 {
		r.post(id, "/").content(id, 5, 0).content(id, 5, 0)
		want += fmt.Sprint(id, " REFUSED_STREAM\n")
	}
	if got := r.resets(); got != want {
		t.Error(got)
	}
	close(release)
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 1 204" {
		t.Error(got)
	}
}

// TestHTTP2Curl: curl shows the answer to an upload that was not read, long or short.
func TestHTTP2Curl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		ci.Lacks(t, "curl")
	}
	file := t.TempDir() + "/f"
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
			return w.Text(403, "unread")
		}})
		for _, n := range []int{10, 100_000, 250_000, 3 << 20} {
			must.Do(t, os.WriteFile(file, make([]byte, n), 0o600))
			for _, length := range []string{"Content-Length: " + fmt.Sprint(n), "Content-Length:"} {
				out, err := exec.Command(curl, "-sSk", "--http2-prior-knowledge", "-H", length, "-H", "Expect:",
					"--data-binary", "@"+file, "-w", " %{http_code}", url2(s, "/")).CombinedOutput()
				if err != nil || string(out) != "unread 403" {
					t.Errorf("%d bytes, %q: %s, %v", n, length, out, err)
				}
			}
		}
	}, modes.HTTP2, modes.HTTP2TLS)
}

// TestHTTP2TruncatedUpload: a body whose stream is reset after its last frame, and before the
// handler has read all of it, does not end as if it were whole.
func TestHTTP2TruncatedUpload(t *testing.T) {
	t.Parallel()
	reading, reset, got := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		_, err := io.ReadFull(req.Body(), make([]byte, 10))
		close(reading)
		req.KeepWaiting(true)
		_, _ = req.AwaitAny(-1, loop.FromChan(reset))
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body())
		}
		got <- err
		return 200
	}})
	r := dial2(t, s).post(1, "/").content(1, 1000, http2.EndStream).flush()
	<-reading
	r.frame(http2.RSTStream, 0, 1, "\x00\x00\x00\x08").flush()
	s.Settle()
	close(reset)
	if err := <-got; err == nil {
		t.Error("the body has ended as if it were whole")
	}
}

// TestHTTP2LateContinuation: trailers whose stream ends between two of their frames do not end the
// connection.
func TestHTTP2LateContinuation(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/wait" {
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
		}
		return w.Text(200, "unread")
	}})
	r := dial2(t, s).post(1, "/wait")
	r.frame(http2.Headers, http2.EndStream, 1, "\x40\x01x").flush()
	s.Settle()
	close(release)
	if got := r.until(http2.Headers); got != "HEADERS 1 200" {
		t.Fatal(got)
	}
	r.frame(http2.Continuation, http2.EndHeaders, 1, "\x01y")
	if got := r.get(3).flush().until(http2.Headers, http2.GoAway); got != "HEADERS 3 200" {
		t.Error(got)
	}
}

// TestHTTP2BlocksInTime: header_timeout is for each field block that comes in pieces, and not for
// all of a stream.
func TestHTTP2BlocksInTime(t *testing.T) {
	t.Parallel()
	s := start(t, modes.HTTP2, conn.Config{
		Limits: conn.Limits{HeaderTimeout: 10 * time.Second, BodyTimeout: time.Hour,
			KeepAliveTimeout: time.Hour},
		Handler: func(req *conn.Request, w *conn.Response) int {
			_, err := io.Copy(io.Discard, req.Body())
			return w.Text(200, fmt.Sprint(err))
		}})
	r := dial2(t, s)
	head := block(":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a")
	r.frame(http2.Headers, 0, 1, head[:5]).flush()
	s.Settle()
	r.frame(http2.Continuation, http2.EndHeaders, 1, head[5:]).flush()
	s.Settle()
	s.Skip(time.Minute)
	r.frame(http2.Headers, http2.EndStream, 1, "\x40\x01x").flush()
	s.Settle()
	s.Skip(5 * time.Second)
	r.frame(http2.Continuation, http2.EndHeaders, 1, "\x01y").flush()
	if got := r.until(http2.Headers, http2.GoAway); got != "HEADERS 1 200" {
		t.Error(got)
	}
}

// TestHTTP2FullWindowUnread: a client that has used its window up before it is answered may send as
// much as others, and is told then. Some clients that are told sooner do not see the answer.
func TestHTTP2FullWindowUnread(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, modes.HTTP2,
		conn.Config{Limits: conn.Limits{MaxBodySize: -1, BodyTimeout: time.Hour},
			Handler: func(req *conn.Request, w *conn.Response) int {
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
				return w.Text(200, "unread")
			}})
	r := dial2(t, s).post(1, "/", "content-length", "1000000000").
		content(1, http2.DefaultWindow, 0).flush()
	s.Settle()
	close(release)
	if got := r.until(http2.Headers); got != "HEADERS 1 200" {
		t.Fatal(got)
	}
	if got := r.content(1, 256<<10, 0).resets(); got != "" {
		t.Error("too soon: ", got)
	}
	if got := r.frame(http2.Data, 0, 1,
		"x").flush().until(http2.RSTStream); got != "RST_STREAM 1 NO_ERROR" {
		t.Error(got)
	}
}
