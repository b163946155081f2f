package conn_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// taken is a conn.Sink that writes down what it gets.
type taken struct {
	got   strings.Builder
	size  int
	takes bool // whole answers with their heads
	over  *loop.Promise[string]
}

func (s *taken) Inform(status int, fields []conn.Field) { fmt.Fprint(&s.got, status, fields, " ") }

func (s *taken) Head(h *conn.SentHead) bool {
	fmt.Fprint(&s.got, h.Status, " ", h.Reason, h.Fields, h.Length)
	for text, is := range map[string]bool{" relayed": h.Relayed, " forwarded": h.Forwarded} {
		if is {
			s.got.WriteString(text)
		}
	}
	if s.takes && h.Whole {
		s.got.WriteString(" whole")
		s.size = len(h.Content)
	}
	return s.takes && h.Whole
}

func (s *taken) Write(_ *loop.Thread, p []byte) error {
	s.size += len(p)
	return nil
}

func (s *taken) Flush() {}

func (s *taken) End(trailer []conn.Field, sound bool) {
	fmt.Fprint(&s.got, " end", trailer)
	if !sound {
		s.got.WriteString(" unsound")
	}
}

func (s *taken) Over(err error) {
	fmt.Fprint(&s.got, " ", s.size)
	if err != nil {
		s.got.WriteString(" " + err.Error())
	}
	s.over.Resolve(s.got.String())
}

// TestBackground: the sink gets what a handler answers, as the handler has meant it, whatever the
// way.
func TestBackground(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	file := t.TempDir() + "/file"
	must.Write(t, file, long)
	length := fmt.Sprint(len(long))
	ways := map[string]struct {
		h     conn.Handler
		want  string
		whole bool // the body comes with the head, where the sink takes that
	}{
		"nothing": {func(*conn.Request, *conn.Response) int { return 0 }, "200 [] 0 end[] 0", true},
		"refused": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A", "b")
			return 404
		}, "404 [{A b}] 0 end[] 0", true},
		"text": {func(_ *conn.Request, w *conn.Response) int { return w.Text(200, "hello") },
			"200 [{Content-Type text/plain; charset=utf-8}] 5 end[] 5", true},
		"none": {func(*conn.Request, *conn.Response) int { return 204 }, "204 [] 0 end[] 0", true},
		"streamed": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(203, "Fine")
			w.Inform(103, nil)
			w.AddTrailer("T", "t")
			w.Write([]byte(long))
			w.Flush()
			w.Write([]byte("x"))
			return 203
		}, "103 [] 203 Fine[] -1 relayed end[{T t}] 102401", false},
		"declared": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", length)
			w.Header().Set("Connection", "close")
			w.Write([]byte(long))
			return 200
		}, "200 [{Content-Type text/plain; charset=utf-8}] 102400 end[] 102400", false},
		"too-long": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(200, "")
			w.Header().Set("Content-Length", length)
			w.Write([]byte(long))
			w.Write([]byte(long))
			return 200
		}, "200 [] 102400 relayed end[] unsound 102400", false},
		"another-length": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(200, "")
			w.Header().Set("Content-Length", "7")
			w.Write([]byte("hello"))
			return 200
		}, "200 [] 5 relayed end[] unsound 5", false},
		"too-short": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(200, "")
			w.Header().Set("Content-Length", length)
			w.Write([]byte("hello"))
			w.Flush()
			return 200
		}, "200 [] 102400 relayed 5 response body is shorter than announced", false},
		"doubtful": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(200, "")
			w.Write([]byte("hello"))
			w.Layer().MarkEndUncertain()
			return 200
		}, "200 [] -1 relayed end[] unsound 5", false},
		"cut": {func(_ *conn.Request, w *conn.Response) int {
			w.Write([]byte(long))
			w.Abort()
			return 200
		}, "200 [{Content-Type text/plain; charset=utf-8}] -1 102400 response given up by its handler",
			false},
		"reader": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader(long), -1)
			return 200
		}, "200 [] -1 end[] 102400", false},
		"file": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyFile(must.Get(os.Open(file))(t), 0, int64(len(long)))
			return 200
		}, "200 [] 102400 end[] 102400", false},
		"forwarded": {func(req *conn.Request, w *conn.Response) int {
			status, _ := req.Layer().Forward("/x", w, func(_ *conn.Request, w *conn.Response) int {
				return w.Text(200, "y")
			})
			return status
		}, "200 [{Content-Type text/plain; charset=utf-8}] 1 forwarded end[] 1", true},
		"library": {conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Seen", fmt.Sprintf("%s %s %s %d", r.Method, r.URL, r.Header["A"], len(body)))
			io.WriteString(w, long)
		})),
			"200 [{Seen GET /a%2Fb?library [c] 0} {Content-Type text/plain; charset=utf-8}] -1 end[] 102400",
			false},
		"request": {func(req *conn.Request, w *conn.Response) int {
			w.Header().Set("R", fmt.Sprint(req.Method(), req.Target(), req.Path(), req.RawQuery(),
				req.Header().Values("Range"), req.Header().Values("a"), req.ContentLength()))
			return 204
		}, "204 [{R GET/a%2Fb?request/a/brequest[] [c] 0}] 0 end[] 0", true},
		"hijack": {func(_ *conn.Request, w *conn.Response) int {
			if _, _, err := w.Hijack(); err != nil {
				return 418
			}
			return 200
		}, "418 [] 0 end[] 0", true},
		"sleeps": {func(req *conn.Request, w *conn.Response) int {
			if req.Sleep(time.Millisecond) != nil {
				return 500
			}
			return 202
		}, "202 [] 0 end[] 0", true},
	}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			_, takes := req.Layer().HeaderView("Takes")
			sink := &taken{takes: takes, over: new(loop.Promise[string])}
			req.Layer().StartBackground(ways[req.RawQuery()].h, sink, []conn.Field{{Name: "A", Value: "c"}})
			got, err := sink.over.Await(req.Thread, wait.Patience)
			if err != nil {
				t.Error(err)
			}
			return w.Text(200, got)
		}})
		for name, way := range ways {
			got := s.Exchange("GET /a%2Fb?" + name + " HTTP/1.1\r\nHost: h\r\nA: b\r\nRange: bytes=0-1\r\n" +
				"If-None-Match: *\r\nConnection: close\r\n\r\n")
			if _, text, _ := strings.Cut(got, "\r\n\r\n"); text != way.want {
				t.Errorf("%s: %q, want %q", name, text, way.want)
			}
			want := way.want
			if way.whole {
				want = strings.Replace(want, "end[]", "whole", 1)
			}
			got = s.Exchange("GET /a%2Fb?" + name +
				" HTTP/1.1\r\nHost: h\r\nA: b\r\nTakes: 1\r\nConnection: close\r\n\r\n")
			if _, text, _ := strings.Cut(got, "\r\n\r\n"); text != want {
				t.Errorf("%s, taken with its head: %q, want %q", name, text, want)
			}
		}
	})
}

// TestBackgroundOutlivesClient: a background subrequest goes on when the client has left, until
// Cancel; a handler that has given up then has no answer.
func TestBackgroundOutlivesClient(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var left, begun atomic.Int32
		first, second := new(loop.Promise[string]), new(loop.Promise[string])
		release := new(loop.Promise[string])
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			over := first
			if req.Path() == "/leave" {
				over = second
			}
			e := req.Layer().StartBackground(func(req *conn.Request, w *conn.Response) int {
				if _, err := release.Await(req.Thread, wait.Patience); err != nil {
					left.Add(1)
					return 0
				}
				return w.Text(200, "whole")
			}, &taken{over: over}, nil)
			if req.Path() == "/leave" {
				_ = req.Sleep(time.Millisecond)
				e.Cancel()
				return 200
			}
			begun.Add(1)
			_ = req.Sleep(wait.Patience) // until the client leaves
			release.Resolve("")
			return 200
		}})
		c := s.Dial()
		c.Send("GET /leave HTTP/1.1\r\nHost: h\r\n\r\n")
		c.Answer("GET")
		wait.Until(t, "the subrequest that was left", func() bool { return second.Ready() })
		c.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		wait.Until(t, "the other one", func() bool { return begun.Load() == 1 })
		c.Reset()
		wait.Until(t, "the subrequest whose client has left", func() bool { return first.Ready() })
		if v, _ := first.Value(); v != "200 [{Content-Type text/plain; charset=utf-8}] 5 end[] 5" {
			t.Errorf("the client has left: %q", v)
		}
		if v, _ := second.Value(); v != " 0 response given up by its handler" || left.Load() != 1 {
			t.Errorf("left: %q, %d", v, left.Load())
		}
	})
}

// TestBackgroundPanics: a panic on a background subrequest is a 500, also behind a background
// subrequest that was left.
func TestBackgroundPanics(t *testing.T) {
	t.Parallel()
	over := []*loop.Promise[string]{new(loop.Promise[string]), new(loop.Promise[string])}
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			e := req.Layer().StartBackground(func(req *conn.Request, w *conn.Response) int {
				_ = req.Sleep(wait.Patience)
				return 0
			}, &taken{over: over[0]}, nil)
			_ = req.Sleep(time.Millisecond)
			e.Cancel()
			if _, err := over[0].Await(req.Thread, wait.Patience); err != nil {
				t.Error(err)
			}
			panics := func(*conn.Request, *conn.Response) int { panic("in the background") }
			req.Layer().StartBackground(panics, &taken{over: over[1]}, nil)
			got, err := over[1].Await(req.Thread, wait.Patience)
			if err != nil {
				t.Error(err)
			}
			return w.Text(200, got)
		}})
	s.Panics.Expect()
	if a := s.Request("GET /", nil, ""); !strings.HasPrefix(a.Text, "500 ") {
		t.Errorf("%q", a.Text)
	}
}
