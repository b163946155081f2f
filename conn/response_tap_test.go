package conn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// tap is a conn.Tap that writes down what it gets, and takes and withholds what it is told to.
type tap struct {
	got      []string
	fate     map[int]conn.Verdict // of an answer, by its status; else it is withheld
	withhold bool                 // what has failed
	panics   string               // the call that does
}

func (p *tap) note(what string, args ...any) {
	p.got = append(p.got, what+fmt.Sprint(args...))
	if what == p.panics {
		panic("in a tap")
	}
}

func (p *tap) Head(_ *conn.Response, h *conn.SentHead) conn.Verdict {
	p.note("head", h.Status)
	fate, ok := p.fate[h.Status]
	if !ok {
		return conn.Withheld
	}
	return fate
}

func (p *tap) Write(_ *loop.Thread, b []byte) bool {
	p.note("write", len(b))
	return true
}

func (p *tap) End(_ []conn.Field, sound bool) { p.note("end", sound) }

func (p *tap) Failed(error) bool {
	p.note("failed")
	return p.withhold
}

func (p *tap) Over(error)     { p.note("over") }
func (p *tap) Left(bool) bool { return false }
func (p *tap) Room() int64    { return 0 }

// TestTapEnds: a tap gets one last call, whatever becomes of the answer, and what has failed before
// anything has gone out can have another answer in its place.
func TestTapEnds(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	takes := map[int]conn.Verdict{200: conn.Tapped, 500: conn.Passes}
	for name, tt := range map[string]struct {
		h    conn.Handler
		tap  tap
		want string // what the tap gets, and the client: the first word of the body, or the status
	}{
		"text": {func(_ *conn.Request, w *conn.Response) int { return w.Text(200, "hello") },
			tap{fate: takes}, "head200 write5 endtrue: hello"},
		"a panic": {func(*conn.Request, *conn.Response) int { panic("on purpose") },
			tap{fate: takes}, "head500: 500"},
		"a panic, withheld": {func(*conn.Request, *conn.Response) int { panic("on purpose") },
			tap{}, "head500: kept"},
		"a thread that fails, withheld": {func(req *conn.Request, w *conn.Response) int {
			req.Go(func(*loop.Thread) error { return errors.New("on purpose") })
			return w.Text(200, "hello")
		}, tap{}, "head500: kept"},
		"a bad field": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A", "b\r\nc")
			return w.Text(200, "hello")
		}, tap{fate: takes}, "head500: 500"},
		"a bad field, withheld": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A", "b\r\nc")
			return w.Text(200, "hello")
		}, tap{}, "head500: kept"},
		"no status, withheld": {func(*conn.Request, *conn.Response) int { return 99 }, tap{},
			"head500: kept"},
		"given up": {func(_ *conn.Request, w *conn.Response) int {
			w.Abort()
			return 0
		}, tap{}, "failed: cut"},
		"given up, withheld": {func(_ *conn.Request, w *conn.Response) int {
			w.Abort()
			return 0
		}, tap{withhold: true}, "failed: kept"},
		"a panic that says so, withheld": {func(*conn.Request, *conn.Response) int {
			panic(http.ErrAbortHandler)
		},
			tap{withhold: true}, "failed: kept"},
		"a panic behind what is withheld": {func(_ *conn.Request, w *conn.Response) int {
			if _, err := w.Write([]byte(long)); err != nil {
				panic(err)
			}
			return 200
		}, tap{}, "head200: kept"},
		"given up behind the head": {func(_ *conn.Request, w *conn.Response) int {
			_, _ = w.Write([]byte(long))
			w.Abort()
			return 200
		}, tap{fate: takes}, "head200 write102400 over: cut"},
		"a panic of the tap at the head": {func(_ *conn.Request, w *conn.Response) int {
			return w.Text(200, "hello")
		},
			tap{fate: takes, panics: "head"}, "head200 over: 500"},
		"a panic of the tap at the end": {func(_ *conn.Request, w *conn.Response) int {
			return w.Text(200, "hello")
		},
			tap{fate: takes, panics: "end"}, "head200 write5 endtrue over: 500"},
		"a panic of the tap in a piece": {func(_ *conn.Request, w *conn.Response) int {
			_, _ = w.Write([]byte(long))
			return 200
		}, tap{fate: takes, panics: "write"}, "head200 write102400 over: cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taps := make(chan tap, 1)
			s := server.Start(t, modes.Direct,
				conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
					p := tt.tap
					req.Defer(func() { taps <- p })
					status, withheld := req.Layer().Tap(w, tt.h, &p, nil)
					if withheld {
						return w.Text(200, "kept")
					}
					return status
				}})
			if strings.Contains(name, "panic") && !strings.Contains(name, "says so") {
				s.Panics.Expect()
			}
			got := s.Exchange("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			head, body, _ := strings.Cut(got, "\r\n\r\n")
			client := body
			switch {
			case got == "", strings.Contains(head, "chunked") && !strings.HasSuffix(got, "\r\n0\r\n\r\n"):
				client = "cut"
			case strings.HasPrefix(head, "HTTP/1.1 500 "):
				client = "500"
			}
			p := <-taps
			if got := strings.Join(p.got, " ") + ": " + client; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestTapOfAbandonedCall: a function that a handler has left behind off the loop reads the request
// that it was given, and not one that comes later and gets the same memory.
func TestTapOfAbandonedCall(t *testing.T) {
	t.Parallel()
	block, read := make(chan struct{}), make(chan string, 1)
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			status, _ := req.Layer().Tap(w, func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/first" {
					_ = req.Await(time.Millisecond, func(context.Context) error {
						<-block
						read <- req.Target()
						return nil
					})
				}
				return w.Text(200, "hello")
			}, &tap{fate: map[int]conn.Verdict{200: conn.Tapped}}, nil)
			return status
		}})
	c := s.Dial()
	for _, target := range []string{"/first", "/other", "/third"} {
		c.Do("GET", "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
	}
	close(block)
	select {
	case got := <-read:
		if got != "/first" {
			t.Errorf("the function reads %q", got)
		}
	case <-time.After(wait.Patience):
		t.Error("the function cannot read the request")
	}
}
