package conn_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// ranging is a tap that has the client get a part.
type ranging struct {
	tap
	status  int
	from, n int64
}

func (p *ranging) Head(resp *conn.Response, h *conn.SentHead) conn.Verdict {
	fate := p.tap.Head(resp, h)
	resp.Layer().SendRange(p.status, p.from, p.n)
	return fate
}

// TestSendRange: a client gets its part, complete, whatever becomes of the rest, and its connection
// goes on. A tap gets all, and a handler of whose answer it wants nothing gets no further than to
// the end of the part.
func TestSendRange(t *testing.T) {
	const size = 300 << 10
	text := strings.Repeat("0123456789", size/10)
	pieces := func(w *conn.Response) (err error) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for rest := text; rest != "" && err == nil; {
			n := min(len(rest), 50_000)
			_, err = w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		return err
	}
	for name, tt := range map[string]struct {
		h     conn.Handler
		tap   string // what it gets at last
		short bool   // not all can be had, and a part at the end is cut
	}{
		"pieces": {func(_ *conn.Request, w *conn.Response) int {
			_ = pieces(w)
			return 200
		}, "endtrue", false},
		"whole": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBody([]byte(text))
			return 200
		}, "endtrue", false},
		"gathered": {func(_ *conn.Request, w *conn.Response) int {
			_, _ = w.Write([]byte(text[:30_000]))
			return 200
		}, "endtrue", true},
		"a reader": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader(text), size)
			return 200
		}, "endtrue", false},
		"a reader that fails": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(io.MultiReader(strings.NewReader(text[:100_000]),
				iotest.ErrReader(errors.New("on purpose"))), size)
			return 200
		}, "over", true},
		"given up": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write([]byte(text[:100_000]))
			w.Abort()
			return 200
		}, "over", true},
		"too short": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write([]byte(text[:100_000]))
			return 200
		}, "over", true},
		"with Duplex": {func(req *conn.Request, w *conn.Response) int {
			d := req.Layer().Duplex()
			_ = pieces(w)
			_ = d.End()
			return 200
		}, "endtrue", false},
	} {
		for _, part := range []struct {
			status  int
			from, n int64
		}{
			{206, 10, 10}, {206, 60_000, 30_000}, {206, 0, size}, {206, size - 1, 1},
			{304, 0, 0}, {416, 0, 0},
		} {
			for _, fate := range []conn.Verdict{conn.Tapped, conn.Passes} {
				modes.Run(t, func(t *testing.T, m modes.Mode) {
					taps := make(chan *ranging, 1)
					logged := new(logtext.Buffer)
					cfg := conn.Config{Logger: logtext.Logger(t, logged)}
					cfg.Handler = func(req *conn.Request, w *conn.Response) int {
						if req.Path() == "/next" {
							return w.Text(200, "next")
						}
						p := &ranging{tap{fate: map[int]conn.Verdict{200: fate}}, part.status, part.from, part.n}
						req.Defer(func() { taps <- p })
						status, _ := req.Layer().Tap(w, tt.h, p, nil)
						return status
					}
					s := server.Start(t, m, cfg)
					if tt.short && part.from+part.n > 100_000 || name == "gathered" && part.from+part.n > 30_000 {
						return // it is cut
					}
					what := fmt.Sprintf("%s, %d %d+%d, fate %d", name, part.status, part.from, part.n, fate)
					c := s.Dial()
					a := c.Do("GET", "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
					if a.StatusCode != part.status || a.Text != text[part.from:][:part.n] {
						t.Errorf("%s: %d, %d bytes", what, a.StatusCode, len(a.Text))
					}
					if a := c.Do("GET", "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"); a.Text != "next" {
						t.Errorf("%s: next %q", what, a.Text)
					}
					if said := logged.String(); said != "" && !strings.HasPrefix(name, "a reader that") {
						t.Errorf("%s: logged is %q", what, said)
					}
					got := (<-taps).got
					last, wrote := got[len(got)-1], 0
					for _, call := range got {
						var n int
						if _, err := fmt.Sscanf(call, "write%d", &n); err == nil {
							wrote += n
						}
					}
					switch {
					case fate == conn.Passes && (len(got) != 1 || last != "head200"),
						fate == conn.Tapped && (last != tt.tap || !tt.short && wrote != size):
						t.Errorf("%s: the tap has got %v", what, got)
					}
				}, modes.Direct, modes.HTTP2)
			}
		}
	}
}

// TestSendRangeEnds: a handler of whose answer nobody wants more than a part learns that from the
// write that completes it.
func TestSendRangeEnds(t *testing.T) {
	wrote := make(chan int, 1)
	h := func(req *conn.Request, w *conn.Response) int {
		p := &ranging{tap{fate: map[int]conn.Verdict{200: conn.Passes}}, 206, 10, 10}
		status, _ := req.Layer().Tap(w, func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", fmt.Sprint(1<<40))
			n := 0
			for ; n < 1000; n++ {
				if _, err := w.Write(make([]byte, 50_000)); err != nil {
					break
				}
			}
			wrote <- n
			w.Abort()
			return 200
		}, p, nil)
		return status
	}
	s := server.Start(t, modes.Direct, conn.Config{Handler: h})
	if a := s.Request("GET /", nil, ""); a.StatusCode != 206 || len(a.Text) != 10 {
		t.Errorf("%d, %d bytes", a.StatusCode, len(a.Text))
	}
	if n := <-wrote; n > 0 {
		t.Errorf("%d pieces were written", n)
	}
}

// TestSendRangeSkips: what is not kept, and lies in front of the part that the client gets, neither
// keeps others from their turn, nor does it go on when the client has left.
func TestSendRangeSkips(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	served := false
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/other" {
				served = true
				return w.Text(200, "other")
			}
			p := &ranging{tap{fate: map[int]conn.Verdict{200: conn.Passes}}, 206, 1 << 49, 10}
			status, _ := req.Layer().Tap(w, func(req *conn.Request, w *conn.Response) int {
				close(begun)
				w.Header().Set("Content-Length", "1000000000000000")
				piece := make([]byte, 64<<10)
				var err error
				for start := time.Now(); err == nil && time.Since(start) < wait.Patience; {
					_, err = w.Write(piece)
				}
				ended <- err
				return 200
			}, p, nil)
			if !served {
				t.Error("others have had no turn")
			}
			return status
		}})
	c := s.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	<-begun
	if got := s.Exchange(
		"GET /other HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "other") {
		t.Errorf("%q", got)
	}
	c.Reset()
	if err := <-ended; err == nil {
		t.Error("the handler goes on for nobody")
	}
}

// TestSendRangeEndsLate: a client of HTTP/2 that takes the last bytes of its part late has the end
// with them: while the handler goes on, and also where it has ended before.
func TestSendRangeEndsLate(t *testing.T) {
	t.Parallel()
	for _, fate := range []conn.Verdict{conn.Tapped, conn.Passes} {
		release := new(loop.Promise[struct{}])
		s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			p := &ranging{tap{fate: map[int]conn.Verdict{200: fate}}, 206, 0, 10}
			status, _ := req.Layer().Tap(w, func(req *conn.Request, w *conn.Response) int {
				d := req.Layer().Duplex()
				w.Header().Set("Content-Length", "100000")
				if _, err := w.Write(make([]byte, 50_000)); err != nil {
					return 200
				}
				for {
					if left, err := d.SendHeld(); left == 0 || err != nil {
						break
					}
					_ = d.Await(-1, false)
				}
				_, _ = release.Await(req.Thread, wait.Patience)
				_, _ = w.Write(make([]byte, 50_000))
				return 200
			}, p, nil)
			return status
		}})
		r := dial2(t, s)
		r.frame(http2.SettingsFrame, 0, 0, string(http2.AppendSetting(nil, http2.InitialWindowSize, 4)))
		r.get(1).flush()
		got := 0
		for ended := false; !ended; {
			h, p := r.next()
			switch h.Type {
			case 255, http2.RSTStream:
				t.Fatalf("fate %d: %d bytes, and no end: %s", fate, got, p)
			case http2.Data:
				if got += len(p); got == 4 {
					r.frame(http2.WindowUpdate, 0, 1, "\x00\x00\x00\x64").flush()
				}
				ended = h.Flags&http2.EndStream != 0
			}
		}
		release.Resolve(struct{}{})
		if got != 10 {
			t.Errorf("fate %d: %d bytes", fate, got)
		}
	}
}

// TestSendRangeGivesUp: the handler of an answer that is not kept ends with the part, and so the
// next request does not wait for more.
func TestSendRangeGivesUp(t *testing.T) {
	more := new(loop.Promise[struct{}])
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/other" {
				return w.Text(200, "other")
			}
			p := &ranging{tap{fate: map[int]conn.Verdict{200: conn.Passes}}, 206, 0, 10}
			status, _ := req.Layer().Tap(w, func(req *conn.Request, w *conn.Response) int {
				w.Header().Set("Content-Length", "100000")
				if _, err := w.Write(make([]byte, 50_000)); err == nil {
					t.Error("the handler goes on for nobody")
					_, _ = more.Await(req.Thread, wait.Patience)
				}
				return 200
			}, p, nil)
			return status
		}})
	c := s.Dial()
	c.Send(
		"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /other HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if got := string(must.Get(io.ReadAll(c.R))(t)); !strings.HasSuffix(got, "\r\n\r\nother") {
		t.Errorf("%q", got)
	}
	more.Resolve(struct{}{})
}
